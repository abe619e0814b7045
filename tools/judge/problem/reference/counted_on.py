"""State as after very many forwards: what a module counts is counted on, and its rings are full.

Nobody waits for the thousandth call, nor for the one at which a counter no longer fits a float32. Where each
forward adds the same to some numbers of the state, they are set to what so many forwards would have made of
them; the reference then makes the last few forwards itself, and must go on counting as it did.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.met_numbers import met_numbers
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.verify.compare.gate import unit_roundoff

Weights = Mapping[str, torch.Tensor]
_EDGES = (256, 1000, 1 << 15, 1 << 16, 1 << 24, 1 << 32)
"""Where narrower numbers end, and a round one."""
_SURE = (1 << 31,)
"""What comes first: what stands still, wraps or is capped anywhere below does it there too."""
_BEFORE = 2
"""So many forwards before an edge calls begin."""
_FIRST = 3
"""Forwards before anything is taken for a counter."""
_LEAD = 2
"""The last forwards that the reference makes itself."""
_FURTHER = 8
"""So many more have to find room in a counter's type."""
_MOST = 1 << 33
_LEAST = 200
"""What fewer forwards reach, `reached` does."""
_TURNS = (2, 9)
_OF_THE_SOURCES = 3
_OF_SIZES = 2
_DRAWN = 3


@dataclass(frozen=True)
class FarOn:
    """A state to call from."""

    weights: Weights
    forwards: int
    """How many would have led to it."""


@dataclass(frozen=True)
class _Ring:
    """An entry that is written a few places at a time."""

    dim: int
    """The dimension that they lie along."""
    turn: int
    """Forwards after which all have been written."""


@dataclass(frozen=True)
class _Counting:
    """What one forward adds to which entries, and of which others it writes some places only."""

    given: Weights
    start: Weights
    """After a few forwards."""
    added: Mapping[str, torch.Tensor]
    rings: Mapping[str, _Ring]
    arguments: Arguments
    """A forward of these makes one of the other."""

    @property
    def most(self) -> int:
        """Forwards after which no counter has left its type, and floating ones are exact."""
        room = [_MOST]
        for name, added in self.added.items():
            start = self.start[name]
            limit = 1 / unit_roundoff(start.dtype) if start.is_floating_point() else _end(start)
            left = (limit - start.double().abs().max().item()) / added.double().abs().max().item()
            room.append(int(left) - _FURTHER)
        return min(room)

    def until(self, number: int) -> int:
        """Forwards after which what is counted fastest is as large as this number, or nearly."""
        name = max(self.added, key=lambda n: int(self.added[n].abs().max()))
        place = int(self.added[name].abs().argmax())
        begun = abs(int(self.given[name].reshape(-1)[place]))
        return (number - begun) // abs(int(self.added[name].reshape(-1)[place]))

    def after(self, forwards: int) -> dict[str, torch.Tensor]:
        state = {name: tensor.clone() for name, tensor in self.start.items()}
        for name, added in self.added.items():
            state[name] += added * (forwards - _FIRST)
        return state


def counted_on(
    oracle: Oracle, weights: Weights, drawn: Sequence[Arguments], numbers: Sequence[int]
) -> Iterator[FarOn]:
    """States that lie far on, the surest to tell first; none where a forward counts nothing.

    `numbers`: of the sources, which a branch may ask a counter for, as for those that it meets as it runs. What the reference refuses, and where it does
    not go on counting, is left out. The oracle's weights in use are as they were between two of them.
    """
    counting = _what_is_counted(oracle, weights, drawn)
    if counting is None:
        return
    chance = random.SystemRandom()
    asked_for = [*numbers, *met_numbers(oracle, drawn[0])]
    for forwards, lead in _wanted(counting, drawn, asked_for, chance):
        if forwards - lead >= _FIRST and forwards <= counting.most:
            state = _going_on(oracle, counting, drawn, forwards, lead, chance)
            if state is not None:
                yield FarOn(state, forwards)


def _what_is_counted(
    oracle: Oracle, weights: Weights, drawn: Sequence[Arguments]
) -> _Counting | None:
    """Asked with the same inputs twice: what is added must not depend on what is there."""
    arguments = drawn[0]
    start = _after(oracle, weights, [drawn[at % len(drawn)] for at in range(_FIRST)])
    once = None if start is None else _after(oracle, start, [arguments])
    twice = None if once is None else _after(oracle, once, [arguments])
    if start is None or once is None or twice is None:
        return None
    added = {}
    for name, tensor in start.items():
        if not _is_whole(tensor) or not _is_whole(once[name]):
            continue
        first, second = once[name] - tensor, twice[name] - once[name]
        if torch.equal(first, second) and bool((first != 0).any()):
            added[name] = first
    if not added:
        return None
    return _Counting(weights, start, added, _rings(start, once), arguments)


def _rings(before: Weights, after: Weights) -> dict[str, _Ring]:
    result = {}
    for name, tensor in before.items():
        if not is_inexact(tensor) or tensor.element_size() < 2:
            continue
        for dim, length in enumerate(tensor.shape):
            written = int(_that_differ(tensor, after[name], dim).sum())
            if 0 < written < length:
                result[name] = _Ring(dim, length // written)
                break
    return result


def _wanted(
    counting: _Counting, drawn: Sequence[Arguments], numbers: Sequence[int], chance: random.Random
) -> Iterator[tuple[int, int]]:
    """How many forwards, and how many of them the reference makes: up to places where something may change."""

    def before(edges: Sequence[int]) -> list[tuple[int, int]]:
        return [(counting.until(edge) - _BEFORE, _LEAD) for edge in edges]

    turns = [*dict.fromkeys(ring.turn for ring in counting.rings.values())]
    sizes = [tensor.shape for tensor in (*counting.start.values(), *tensors_of(drawn[0]))]
    of_sizes = [n for shape in sizes for n in (*shape, math.prod(shape)) if n > _LEAST]
    beyond = [round(_LEAST * (_MOST / _LEAST) ** chance.random()) for _ in range(_DRAWN)]
    wanted = [
        *before(_SURE),
        *((turn + 1, _LEAD + 2) for turn in turns),
        *before(_some(chance, [n for n in numbers if n > _LEAST], _OF_THE_SOURCES)),
        *((turn - _BEFORE, _LEAD) for turn in turns),
        *before(chance.sample(_EDGES, len(_EDGES))),
        *((t * chance.randint(*_TURNS) + chance.randrange(t), _LEAD) for t in turns),
        *((t * chance.randint(*_TURNS) - _BEFORE, _LEAD) for t in turns),
        *before([*_some(chance, of_sizes, _OF_SIZES), *beyond]),
    ]
    yield from dict.fromkeys(wanted)


def _some(chance: random.Random, numbers: Sequence[int], most: int) -> list[int]:
    known = [*dict.fromkeys(numbers)]
    return chance.sample(known, min(most, len(known)))


def _going_on(
    oracle: Oracle,
    counting: _Counting,
    drawn: Sequence[Arguments],
    forwards: int,
    lead: int,
    chance: random.Random,
) -> Weights | None:
    """The reference's own state after the last forwards; None where it no longer counts as it did before."""
    begun = counting.after(forwards - lead)
    once = _after(oracle, begun, [counting.arguments])
    if once is None or any(
        not torch.equal(once[name] - begun[name], added) for name, added in counting.added.items()
    ):
        return None
    others = [drawn[at % len(drawn)] for at in range(lead - 1)]
    state = _after(oracle, once, others)
    if state is None:
        return None
    full = {name: ring for name, ring in counting.rings.items() if forwards >= ring.turn}
    filled = {
        name: _filled(state[name], counting.given[name], ring.dim, chance)
        for name, ring in full.items()
    }
    return {**state, **filled}


def _filled(
    now: torch.Tensor, given: torch.Tensor, dim: int, chance: random.Random
) -> torch.Tensor:
    """A ring that has turned: places that no forward has written yet hold what others hold."""
    written = _that_differ(given, now, dim).tolist()
    known = [at for at, is_written in enumerate(written) if is_written]
    if not known:
        return now
    source = [at if is_written else chance.choice(known) for at, is_written in enumerate(written)]
    return now.index_select(dim, torch.tensor(source, device=now.device))


def _after(oracle: Oracle, weights: Weights, calls: Sequence[Arguments]) -> Weights | None:
    """None where the reference refuses, or leaves no number."""
    kept = oracle.weights
    state = weights
    try:
        for arguments in calls:
            oracle.use_weights(state)
            state = oracle.state_after(arguments)
    except REFUSALS:
        return None
    finally:
        oracle.use_weights(kept)
    return state if all(map(_is_finite, state.values())) else None


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether it may be counted in: whole numbers, in a type that tells their neighbours apart."""
    if tensor.dtype == torch.bool or tensor.is_complex() or not tensor.numel():
        return False
    if not tensor.is_floating_point():
        return True
    return tensor.element_size() >= 4 and torch.equal(tensor, tensor.round())


def _is_finite(tensor: torch.Tensor) -> bool:
    wide = is_inexact(tensor) and tensor.element_size() > 1
    return not wide or bool(tensor.isfinite().all())


def _that_differ(first: torch.Tensor, other: torch.Tensor, dim: int) -> torch.Tensor:
    """For each place along `dim`, whether anything there is another."""
    differs = (first != other).movedim(dim, 0)
    return differs.reshape(len(differs), -1).any(-1)


def _end(tensor: torch.Tensor) -> float:
    return float(torch.iinfo(tensor.dtype).max)
