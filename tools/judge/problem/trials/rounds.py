"""The calls of a judging, round by round, and the making of the next round while a candidate is waited for.

What is called in them is drawn in `trials` and `training`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec

import torch

from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.memory_need import MADE_AHEAD_BYTES, bytes_of
from kernelagent.tools.judge.problem.reference.expected import Expected
from kernelagent.tools.judge.problem.reference.near_ties import NearTies
from kernelagent.tools.judge.problem.trials.probes import Dropped
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.regions import MeasureNoise

_P = ParamSpec("_P")


@dataclass(frozen=True)
class Trial:
    """One call and what the reference answers to it."""

    input_set: str
    probe: str
    arguments: Arguments
    expected: Expected
    """What the reference returns and leaves behind."""
    compared: compare.Expected
    """The same as the comparison wants it."""
    reference: Callable[[Mapping[str, torch.Tensor]], Any]
    """The float64 answer with some inputs or weights exchanged, by name."""
    then: Trial | None = None
    """The call that follows at once, with the state this one leaves and nearly the same inputs."""
    hidden: bool = False
    """At a size that is not disclosed to the model or the candidate."""
    in_place: bool = False
    """In the memory of the call before it, so that an address says nothing about contents."""
    step: TrainingStep | None = None
    """The training step that the call is part of; None: a forward without gradients."""
    state_noise: MeasureNoise | None = None
    """How far entries of the state after it may be off, asked for when one was refused."""
    near_ties: NearTies | None = None
    """Which whole numbers of the result rounding decides; None: the reference cannot tell."""


@dataclass(frozen=True)
class Round:
    """Calls under one set of weights."""

    weights: Mapping[str, torch.Tensor]
    trials: tuple[Trial, ...]
    dropped: tuple[Dropped, ...]
    refused: tuple[str, ...] = ()
    """Input sets at hidden sizes that the reference does not take."""
    kept_buffers: tuple[str, ...] = ()
    repeats: bool = False
    """One call is made twice more, to see whether its bits are the same."""
    feeds_back: bool = False
    """A call is followed by others whose inputs are results of the one before."""
    forwards_before: int = 0
    """So many would have led to its weights; nonzero where none of them were made."""


class Rounds:
    """Iterates over rounds; `step` makes a part of the next one in the time that its caller has."""

    def __init__(self, pieces: Iterator[Trial | Round]) -> None:
        """`pieces`: each trial when it is made, and each round when it has all of its own."""
        self._pieces = pieces
        self._next: Round | None = None
        self._failure: Exception | None = None
        self._held_bytes = 0

    def __iter__(self) -> Iterator[Round]:
        return self

    def __next__(self) -> Round:
        while self._next is None:
            self._advance()
        made, self._next, self._held_bytes = self._next, None, 0
        return made

    def step(self) -> bool:
        """Make one more trial of the next round; False: nothing was left to do, or no room."""
        if self._next is not None or self._failure or self._held_bytes >= MADE_AHEAD_BYTES:
            return False
        try:
            self._advance()
        except Exception as error:  # noqa: BLE001 - raised again where the round is asked for
            self._failure = error
        return self._failure is None

    def _advance(self) -> None:
        if self._failure is not None:
            raise self._failure
        piece = next(self._pieces)
        if isinstance(piece, Round):
            self._next = piece
        else:
            held = (piece.arguments, piece.expected.output, piece.expected.output64)
            self._held_bytes += sum(bytes_of(tensor) for tensor in tensors_of(held))


def in_rounds(make: Callable[_P, Iterator[Trial | Round]]) -> Callable[_P, Rounds]:
    """Decorates a generator of the pieces of rounds."""

    @wraps(make)
    def rounds(*args: _P.args, **kwargs: _P.kwargs) -> Rounds:
        return Rounds(make(*args, **kwargs))

    return rounds
