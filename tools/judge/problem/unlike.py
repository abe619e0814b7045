"""Inputs without a property that all of the user's have: other signs, fractions, rows of other sums, other sizes.

A module seldom promises such a property, and its example inputs always have some. What a candidate answers without
it is told, as all that lies beyond the user's own inputs is (`variation`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from kernelagent.tools.judge.problem.input_domain import Domain, Tensors, laid_out_like, observe

_MOST_TENSORS = 6
"""Of each property, so that a module of many inputs is judged in the same time."""
_MOST_OTHERS = 2
"""Weights and buffers whose elements an input is made equal to."""
_QUARTERS = 4
"""So many times single numbers are drawn, each time in another part of the range of sizes."""
_OCTAVES = 13.0
"""Magnitudes go up and down by so many powers of two: to about eight thousand times, and as far down."""
_SHARE = 0.25
_EQUAL_EVERY = 5
_FEWEST = 8
"""Elements; of fewer a property may be chance."""
_INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True)
class Unlike:
    """Some of the inputs, changed."""

    property: str
    """A word for it."""
    held: str
    """What the user's inputs have in common, as a sentence about `name` begins."""
    tried: str
    """What was given instead."""
    name: str
    tensors: Mapping[str, torch.Tensor]


def unlike(natural: Tensors, state: Tensors, generator: torch.Generator) -> Iterator[Unlike]:
    """Each property that a drawn input has, with the input without it; the others as they were drawn.

    `state`: the weights and buffers.
    """
    floating = [name for name, t in natural.items() if t.is_floating_point() and t.numel()]
    for make in (_fractions, _signs, _sums, _single_numbers, _elements, _rows, _offsets):
        for name in floating[:_MOST_TENSORS]:
            for values, (word, held, tried) in make(
                natural[name], observe(natural[name]), generator
            ):
                changed = laid_out_like(values.to(natural[name].dtype), natural[name])
                yield Unlike(word, held, tried, name, {name: changed})
    own = {name: natural[name] for name in floating}
    kept = [n for n, t in state.items() if t.is_floating_point() and t.numel() > 1 and n not in own]
    for name in floating[:_MOST_TENSORS]:
        for other in [*[n for n in floating if n != name][:_MOST_OTHERS], *kept[:_MOST_OTHERS]]:
            made_equal = _equal(natural[name], own.get(other, state.get(other)), generator)
            if made_equal is not None:
                held, tried = f"has no element that equals one of {other}", "elements that do"
                changed = laid_out_like(made_equal.to(natural[name].dtype), natural[name])
                yield Unlike("equal", held, tried, name, {name: changed})


def larger_integers(
    tensor: torch.Tensor, factor: float, generator: torch.Generator
) -> torch.Tensor | None:
    """A quarter of them up to `factor` times the largest; None where their type has none so large."""
    if tensor.dtype not in _INTEGERS or tensor.numel() == 0:
        return None
    high = int(tensor.max())
    most = math.ceil(max(high, 1) * factor)
    if high < 0 or most > torch.iinfo(tensor.dtype).max:
        return None
    places = torch.rand(tensor.shape, generator=generator) < _SHARE
    places.view(-1)[int(torch.randint(tensor.numel(), (), generator=generator))] = True
    drawn = torch.randint(high + 1, most + 1, tensor.shape, generator=generator).to(tensor.dtype)
    return laid_out_like(
        torch.where(places.to(tensor.device), drawn.to(tensor.device), tensor), tensor
    )


_Words = tuple[str, str, str]
_Made = Iterator[tuple[torch.Tensor, _Words]]
_OPEN = frozenset({"real", "positive", "observed"})
"""Kinds of which other values may be thought of; masks and fixed tables stay."""
_SIZED = frozenset({"real", "positive"})


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)


def _drawn(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(like.shape, generator=generator).to(like.device)


def _fractions(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    values = _wide(tensor)
    whole = tensor.numel() >= _FEWEST and bool((values == values.round()).all())
    if seen.kind not in _OPEN or not whole or seen.constant:
        return
    moved = (values + _drawn(values, generator) - 0.5).clamp(seen.low, seen.high)
    yield moved, ("fractions", "holds whole numbers only", "fractions between them")


def _signs(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    if seen.kind not in _OPEN or tensor.numel() < _FEWEST or seen.low * seen.high < 0:
        return
    if seen.low == seen.high == 0:
        return
    sign = "negative" if seen.high > 0 else "positive"
    values = _wide(tensor)
    flipped = torch.where(_drawn(values, generator) < 0.5, -values, values)
    yield flipped, ("signs", f"holds no {sign} numbers", f"{sign} ones among them")


def _sums(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    if seen.kind != "simplex":
        return
    values = _wide(tensor)
    shape = list(values.shape)
    shape[seen.simplex_dim] = 1
    factors = torch.exp2(8 * torch.rand(shape, generator=generator) - 2).to(values.device)
    yield values * factors, ("sums", "holds rows that sum to one", "rows that sum to 0.25 to 64")


def _single_numbers(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    """As a temperature or a scale is: one size in each draw, small and large in turn."""
    if seen.kind not in _SIZED or seen.scale == 0 or tensor.numel() >= _FEWEST:
        return
    values = _wide(tensor)
    octaves = _octaves(tensor, values)
    for quarter in range(_QUARTERS):
        place = 2 * (quarter + _drawn(values, generator)) / _QUARTERS - 1
        yield values * torch.exp2(octaves * place), _sized(octaves, "numbers")


def _elements(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    """Each fourth element of a few rows, so that every size is the largest of some row."""
    if seen.kind not in _SIZED or seen.scale == 0 or tensor.numel() < _FEWEST:
        return
    values = _wide(tensor)
    octaves = _octaves(tensor, values)
    factors = torch.exp2(octaves * (2 * _drawn(values, generator) - 1))
    few = _drawn(values, generator) < _SHARE
    yield torch.where(few, values * factors, values), _sized(octaves, "single elements")


def _rows(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    if seen.kind not in _SIZED or seen.scale == 0 or tensor.dim() == 0:
        return
    values = _wide(tensor)
    octaves = _octaves(tensor, values)
    yield values * _for_rows(values, octaves, generator), _sized(octaves, "whole rows")


def _offsets(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    if seen.kind != "real" or seen.scale == 0 or tensor.dim() == 0:
        return
    values = _wide(tensor)
    octaves = _octaves(tensor, values) / 2
    shifts = seen.scale * _for_rows(values, octaves, generator)
    signs = 1 - 2 * (torch.rand(shifts.shape, generator=generator) < 0.5).to(shifts)
    words = (
        "magnitudes",
        "is spread around zero as your draws are",
        f"rows around up to {2**octaves:.0f} times that",
    )
    yield values + shifts * signs, words


def _sized(octaves: float, what: str) -> _Words:
    return (
        "magnitudes",
        "is as large as your draws are",
        f"{what} up to {2**octaves:.0f} times as large or as small",
    )


def _octaves(tensor: torch.Tensor, values: torch.Tensor) -> float:
    """So many that the largest stays far from the end of the type's range."""
    finite = values.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    largest = max(float(finite.abs().max()), torch.finfo(tensor.dtype).tiny)
    room = torch.log2(torch.tensor(torch.finfo(tensor.dtype).max / largest, dtype=torch.float64))
    return max(0.0, min(_OCTAVES, float(room) / 2))


def _for_rows(values: torch.Tensor, octaves: float, generator: torch.Generator) -> torch.Tensor:
    shape = (*values.shape[:-1], 1)
    return torch.exp2(octaves * (2 * torch.rand(shape, generator=generator) - 1)).to(values.device)


def _equal(
    one: torch.Tensor, other: torch.Tensor | None, generator: torch.Generator
) -> torch.Tensor | None:
    """Elements of the other where it has them beside it, else from anywhere in it; none that `one` never reaches."""
    if other is None or other.dtype != one.dtype or observe(one).kind not in _OPEN:
        return None
    seen, values = observe(one), _wide(one)
    try:
        beside = _wide(other).expand(one.shape)
    except RuntimeError:
        flat = _wide(other).reshape(-1)
        at = torch.randint(len(flat), (one.numel(),), generator=generator).to(flat.device)
        beside = flat[at].reshape(one.shape)
    places = (torch.rand(one.shape, generator=generator) < 1 / _EQUAL_EVERY).to(one.device)
    places &= (beside >= seen.low) & (beside <= seen.high)
    return torch.where(places, beside, values) if bool(places.any()) else None
