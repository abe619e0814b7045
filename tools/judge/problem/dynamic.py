"""Dimensions declared dynamic: which sizes are tried, and inputs of those sizes from the user's own."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelagent.domain.configuration.judge_settings import DynamicDimension
from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.smaller_sizes import on_meta
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.interpreted_work import work_of
from kernelagent.tools.judge.problem.trials.layouts import strides_at, with_strides
from kernelagent.tools.judge.problem.trials.planting.literals import NONE, Literals
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.size_conditions import Beside, sizes_that_decide

_PRIMES = (2, 3, 5, 7, 13, 17, 31, 37, 61, 67, 97, 127, 131, 251, 257, 509, 521, 1021, 1031)
_BLOCKS = (16, 32, 64, 128, 256, 512, 1024)
_FEW = 7
"""As many as a state or a window may hold: shorter than that, a call changes only a part of it."""
_SIZES = 4
"""Hidden sizes that the candidate's text asks for, in each judging."""
_DECIDING = 6
"""Further ones that decide conditions in the candidate's text as none of those does."""
_GROWTH = 2
"""How much larger than the executed size a hidden one may be, the farthest excepted."""
_FARTHEST = (64, 32, 16, 8, 4, 2)
"""How many times the executed size is tried in every judging: the first that is little work."""
_TOGETHER = 3
"""How often all dynamic dimensions change at once, besides to equal sizes and to each other's."""
_LITTLE_WORK = 0.25
"""In units of what is executed in about a second."""

Place = tuple[str, int]
"""A tensor, by its name in the arguments, and one of its axes."""


@dataclass(frozen=True)
class Dynamic:
    """One dynamic dimension of an input set: everything that changes with it."""

    label: str
    """As the user wrote it."""
    places: tuple[Place, ...]
    size: int
    """What it is in the inputs that are executed."""
    arguments: tuple[str, ...]
    """The places as the forward names them, for example `x.shape[0]`."""
    farthest: int = 0
    """The largest size that every candidate is tried at; the emitted module takes none beyond it."""

    @property
    def written_out(self) -> str:
        """For the author of a kernel."""
        return " = ".join(self.arguments)

    def numbered(self, arguments: Arguments) -> tuple[tuple[int, int], ...]:
        """The places, tensors by their number among those of the arguments."""
        names = list(named_tensors(arguments))
        return tuple((names.index(name), axis) for name, axis in self.places)


def dynamic_of(
    source: InputSource, declared: Sequence[DynamicDimension], oracle: Oracle
) -> tuple[Dynamic, ...]:
    """Find each declared dimension in the inputs; raises `ProblemError` when the reference refuses it."""
    return tuple(_found(source, item, oracle) for item in declared)


def hidden(
    source: InputSource,
    dynamic: Sequence[Dynamic],
    chance: random.Random,
    literals: Literals = NONE,
) -> Iterator[InputSource]:
    """The input set at sizes the candidate is not told: one dimension after the other, then all together.

    `literals`: the integers in its source, multiples of which are tried too, and their neighbours.
    """
    tensors = named_tensors(source.draw(0))
    sizes = {item: _sizes(item, chance, literals, _beside(item, tensors)) for item in dynamic}
    for item, every in sizes.items():
        for size in every:
            yield _resized(source, {item: size})
    if len(sizes) > 1:
        for together in _together(sizes, chance):
            yield _resized(source, together)


def again_at(
    source: InputSource, dynamic: Sequence[Dynamic], name: str, shapes: Mapping[str, Sequence[int]]
) -> InputSource:
    """An input set of `hidden` once more, from its name and the shapes that it had; executed as it is."""
    sizes = {item: int(shapes[item.places[0][0]][item.places[0][1]]) for item in dynamic}
    draw = _resized(source, {i: size for i, size in sizes.items() if size != i.size}).draw
    return replace(source, name=name, full=on_meta(draw(0)), draw=draw, shrunk=None)


def _resized(source: InputSource, sizes: Mapping[Dynamic, int]) -> InputSource:
    draw = source.draw
    for item, size in sizes.items():
        draw = resizing(draw, item.places, size)
    shown = " and ".join(f"{item.label} = {size}" for item, size in sizes.items())
    return replace(source, name=f"{source.name} with {shown}", draw=draw, shrunk=None)


def _together(
    sizes: Mapping[Dynamic, Sequence[int]], chance: random.Random
) -> Iterator[dict[Dynamic, int]]:
    """Calls that change all dynamic sizes together: all equal, each set to the next one's, and random combinations.

    The largest sizes are not among these: they are tried for one dimension at a time.
    """
    near = {
        item: [s for s in every if s <= max(_GROWTH * item.size, 8)] or [item.size]
        for item, every in sizes.items()
    }
    others = [item.size for item in sizes]
    most = min(max(_GROWTH * size, 8) for size in others)
    yield dict.fromkeys(sizes, chance.choice([s for s in range(2, most + 1) if s not in others]))
    turned = zip(sizes, [*others[1:], others[0]], strict=True)
    yield {item: min(other, item.farthest or other) for item, other in turned}
    for _ in range(_TOGETHER):
        yield {item: chance.choice(every) for item, every in near.items()}


def _sizes(item: Dynamic, chance: random.Random, literals: Literals, beside: Beside) -> list[int]:
    """One, a few, a prime, a multiple of a block, a block's neighbour, one beyond the block that holds the known size, the farthest.

    Then those that decide what the candidate asks of sizes.
    """
    usual = item.size
    most = max(_GROWTH * usual, 8)
    primes = [p for p in _PRIMES if p <= most]
    edges = [b + d for b in _BLOCKS for d in (-1, 1) if b + d <= most] or [usual + 1]
    # A block that was chosen for the known size is a power of two that holds it.
    beyond = min(1 << (usual - 1).bit_length(), most - 1) + 1
    few = chance.randint(2, min(_FEW, most))
    block = chance.choice([b for b in _BLOCKS if b <= most] or [most])
    whole = block * chance.randint(1, most // block)
    chosen = [
        1,
        few,
        chance.choice(primes),
        whole,
        chance.choice(edges),
        chance.randint(beyond, most),
    ]
    hidden_ones = [size for size in dict.fromkeys(chosen) if size != usual]
    farthest = [item.farthest] if item.farthest else []
    asked = _sizes_asked_for(literals, max(most, item.farthest), chance)
    known = [*hidden_ones, *farthest, *asked]
    decide = sizes_that_decide(
        literals.conditions, max(most, item.farthest), [*known, usual], beside, chance, _DECIDING
    )
    return [s for s in dict.fromkeys([*known, *decide]) if s != usual]


def _beside(item: Dynamic, tensors: Mapping[str, torch.Tensor]) -> Beside:
    sizes = dict.fromkeys(size for t in tensors.values() for size in t.shape)
    elements = dict.fromkeys(tensors[n].numel() // item.size for n, _ in item.places if item.size)
    return Beside(tuple(sizes), tuple(elements))


def _sizes_asked_for(literals: Literals, most: int, chance: random.Random) -> list[int]:
    """Sizes that a branch of the candidate may ask for: with a remainder it names, multiples and neighbours."""
    remainders = [
        left + by * chance.randint(0 if left else 1, (most - left) // by)
        for by, left in literals.remainders
        if left + (0 if left else by) <= most
    ]
    # Powers of two are the sizes of blocks, at whose edges sizes are tried anyway.
    odd = [n for n in literals.integers if n <= most and n & (n - 1)]
    near = [n * chance.randint(1, most // n) + chance.choice((-1, 0, 0, 1)) for n in odd]
    chosen = [s for s in dict.fromkeys([*remainders, *near, *odd]) if 0 < s <= most]
    return chosen[:_SIZES]


def _found(source: InputSource, declared: DynamicDimension, oracle: Oracle) -> Dynamic:
    arguments = source.draw(0)
    tensors = named_tensors(arguments)
    names = names_of_inputs(oracle.module, arguments)
    places = [_place(names, tensors, argument, axis) for argument, axis in declared.places]
    name, axis = places[0]
    size = int(tensors[name].shape[axis])
    tied = tuple(
        (other, axis)
        for other, tensor in tensors.items()
        if tensor.dim() > axis and tensor.shape[axis] == size
    )
    tries = [tied, tuple(places)] if len(places) == 1 else [tuple(places)]
    for those in tries:
        if _accepted(source, those, size + 1, oracle):
            own = {name: argument for argument, name in names.items()}
            shown = tuple(f"{own.get(n, n)}.shape[{axis}]" for n, axis in those)
            return Dynamic(
                declared.text, those, size, shown, _farthest(source, those, size, oracle)
            )
    raise ProblemError(
        f"--dynamic {declared.text}: the forward refuses {size + 1} in place of {size} there. Name "
        f"every place that changes with it, as in --dynamic x:1=mask:2"
    )


def _farthest(source: InputSource, places: tuple[Place, ...], size: int, oracle: Oracle) -> int:
    """One beyond a multiple of the executed size, so that no block of a power of two holds it alone."""
    given = on_meta(source.draw(0))
    for times in _FARTHEST:
        far = times * size + 1
        little = work_of(_without_contents(given, places, far), oracle.module) <= _LITTLE_WORK
        if little or times == _FARTHEST[-1]:
            return far if _accepted(source, places, far, oracle) else size + 1
    return size + 1


def _without_contents(given: Arguments, places: Sequence[Place], size: int) -> Arguments:
    """On meta: an input with two axes that change may be larger than the memory."""
    tensors = named_tensors(given)
    for name, axis in places:
        shape = list(tensors[name].shape)
        shape[axis] = size
        tensors[name] = tensors[name].new_empty(shape)
    return _pair(with_tensors(given, tensors))


def _accepted(source: InputSource, places: tuple[Place, ...], size: int, oracle: Oracle) -> bool:
    try:
        oracle.eager(resizing(source.draw, places, size)(0))
    except ProblemError:
        return False
    return True


def _place(
    names: Mapping[str, str], tensors: Mapping[str, torch.Tensor], argument: str | None, axis: int
) -> Place:
    name = next(iter(tensors)) if argument is None else names.get(argument, argument)
    if name not in tensors:
        raise ProblemError(
            f"--dynamic {argument}:{axis}: there is no tensor argument {argument!r}; there are "
            f"{', '.join(names)}"
        )
    rank = tensors[name].dim()
    if not -rank <= axis < rank:
        raise ProblemError(f"--dynamic: {argument or 'the first input'} has no axis {axis}")
    return name, axis % rank


def name_of_input(module: torch.nn.Module, arguments: Arguments, place: str) -> str:
    """As the forward names the input at `place`; what is no input, such as a weight, keeps its name."""
    named = names_of_inputs(module, arguments)
    return next((own for own, at in named.items() if at == place), place)


def names_of_inputs(module: torch.nn.Module, arguments: Arguments) -> dict[str, str]:
    """Names of the forward's parameters to names in the nest of arguments."""
    args, kwargs = arguments
    parameters = list(inspect.signature(module.forward).parameters)
    named = {name: f"arguments[0][{at}]" for at, name in enumerate(parameters[: len(args)])}
    return named | {key: f"arguments[1][{key!r}]" for key in kwargs}


def resizing(
    draw: Callable[[int], Arguments], places: Sequence[Place], size: int
) -> Callable[[int], Arguments]:
    """Draws of the user's own, joined or cut along the places until they have the size."""

    def drawn(seed: int) -> Arguments:
        made: dict[int, Arguments] = {}

        def tensor_of(name: str, axes: Sequence[int], seed: int) -> torch.Tensor:
            """Of the size along these axes; what is joined along the last has it along those before."""
            if not axes:
                if seed not in made:
                    made[seed] = draw(seed)
                return named_tensors(made[seed])[name]
            *before, axis = axes
            parts = [tensor_of(name, before, seed)]
            while sum(part.shape[axis] for part in parts) < size:
                parts.append(tensor_of(name, before, seed + len(parts)))
            joined = torch.cat(parts, dim=axis) if len(parts) > 1 else parts[0]
            return joined.narrow(axis, 0, size)

        made[seed] = draw(seed)
        tensors = named_tensors(made[seed])
        for name in dict.fromkeys(name for name, _ in places):
            values = tensor_of(name, [a for n, a in places if n == name], seed)
            given = tensors[name]
            made_so = with_strides(values.detach(), strides_at(values.shape, given))
            tensors[name] = made_so.requires_grad_(given.requires_grad)
        return _pair(with_tensors(made[seed], tensors))

    return drawn


def _pair(value: Any) -> Arguments:
    args, kwargs = value
    return args, kwargs
