"""Inputs without a property that all of the user's have: other signs, fractions, rows of other sums, other sizes.

A module seldom promises such a property, and its example inputs always have some. What a candidate answers without
it is told, as all that lies beyond the user's own inputs is (`variation`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.problem.trials.input_domain import (
    Domain,
    Tensors,
    laid_out_like,
    observe,
)

_MOST_TENSORS = 6
"""Of each property, so that a module of many inputs is judged in the same time."""
_MOST_SIZED = 2
"""Weights that become larger or smaller, each by itself."""
_LARGER = 10.0
_QUARTERS = 4
"""So many times single numbers are drawn, each time in another part of the range of sizes."""
_OCTAVES = 18.0
"""Magnitudes go up and down by so many powers of two: to about 260,000 times, beyond float16's range, and as far down."""
_FADES = 40.0
"""Along a dimension they fall by so many: what is kept of a loud beginning hides a quiet end."""
_TINY = 1e-8
"""Of the natural size: above it, what the numbers of the reference tell apart is tried in the judged calls."""
_LAST_BITS = 12
_FEW_VALUES = 4
_SHARE = 0.25
_FEWEST = 8
"""Elements; of fewer a property may be chance."""


_Item = TypeVar("_Item")


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
    other: str = ""
    """What `held` speaks of besides, as `{other}`."""


def unlike(
    natural: Tensors, generator: torch.Generator, constants: Sequence[float] = ()
) -> Iterator[Unlike]:
    """Each property that a drawn input has, with the input without it; the others as they were drawn.

    `constants`: the reference's own numbers.
    """
    names = some_floating(natural, generator)
    tiny = partial(_tiny_rows, constants)
    makers: tuple[_Maker, ...] = (
        _fractions,
        _counts,
        _signs,
        _sums,
        _single_numbers,
        *_OF_SIZES,
        tiny,
        _nearly_equal,
    )
    yield from _without(makers, natural, names, generator)


def unlike_weights(parameters: Tensors, generator: torch.Generator) -> Iterator[Unlike]:
    """Parameters without a property that all of their draws have, as training may leave them; one in each."""
    names = some_floating(parameters, generator)
    makers = (_patterns, _fractions, _signs, _signs_of_few, _sums)
    yield from _without(makers, parameters, names, generator)
    yield from _without((_ten_times, _elements), parameters, names[:_MOST_SIZED], generator)


def some_floating(tensors: Tensors, generator: torch.Generator) -> list[str]:
    """Names in a drawn order; of many the first few."""
    names = [name for name, t in tensors.items() if is_inexact(t) and t.numel()]
    return in_drawn_order(names, generator)[:_MOST_TENSORS]


def in_drawn_order(items: Sequence[_Item], generator: torch.Generator) -> list[_Item]:
    """So that of many none is always left out."""
    return [items[at] for at in torch.randperm(len(items), generator=generator).tolist()]


def _without(
    makers: tuple[_Maker, ...], tensors: Tensors, names: list[str], generator: torch.Generator
) -> Iterator[Unlike]:
    for make in makers:
        for name in names:
            if tensors[name].is_complex() and make not in _OF_COMPLEX:
                continue
            seen = observe(tensors[name])
            for values, (word, held, tried) in make(tensors[name], seen, generator):
                changed = laid_out_like(values.to(tensors[name].dtype), tensors[name])
                yield Unlike(word, held, tried, name, {name: changed})


_Words = tuple[str, str, str]
_Made = Iterator[tuple[torch.Tensor, _Words]]
_Maker = Callable[[torch.Tensor, Domain, torch.Generator], _Made]
_OPEN = frozenset({"real", "positive", "observed"})
"""Kinds of which other values may be thought of; masks and fixed tables stay."""
SIZED = frozenset({"real", "positive"})
"""Kinds of which larger and smaller ones may be thought of."""


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """In float32, or float64 where it is that; complex numbers as they are."""
    if tensor.is_complex():
        return tensor.detach().resolve_conj()
    return tensor.detach().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)


def _drawn(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(like.shape, generator=generator).to(like.device)


def _fractions(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    values = wide(tensor)
    whole = tensor.numel() >= _FEWEST and bool((values == values.round()).all())
    if seen.kind not in _OPEN or not whole or seen.constant:
        return
    moved = (values + _drawn(values, generator) - 0.5).clamp(seen.low, seen.high)
    yield moved, ("fractions", "holds whole numbers only", "fractions between them")


def _counts(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    """Larger whole numbers among those of a few values; what holds zero and one is a mask, and stays one."""
    if seen.kind != "observed" or tensor.numel() < _FEWEST or seen.high <= 1:
        return
    values = wide(tensor)
    octaves = _octaves(tensor, values)
    # Each size as likely as any other.
    larger = (seen.high + 1) * torch.exp2(octaves * _drawn(values, generator)).round()
    few = _drawn(values, generator) < _SHARE
    words = (
        "larger_integers",
        "holds no larger numbers than your draws",
        f"whole ones up to {2**octaves:.0f} times as large",
    )
    yield torch.where(few, larger, values), words


def _signs(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    if seen.kind not in _OPEN or tensor.numel() < _FEWEST or seen.low * seen.high < 0:
        return
    if seen.low == seen.high == 0:
        return
    sign = "negative" if seen.high > 0 else "positive"
    values = wide(tensor)
    flipped = torch.where(_drawn(values, generator) < 0.5, -values, values)
    yield flipped, ("signs", f"holds no {sign} numbers", f"{sign} ones among them")


def _patterns(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    """A triangle of ones, an identity, one tap of a kernel: whatever draws keep of it, a step of training does not."""
    if seen.kind in _OPEN or tensor.numel() < _FEWEST or seen.constant:
        return
    values = wide(tensor)
    few = len({*values.reshape(-1)[: 1 << 16].tolist()}) <= _FEW_VALUES
    if not few or not bool((values == 0).any()):
        return
    size = values.abs().max()
    moved = values + 0.5 * size * (2 * _drawn(values, generator) - 1)
    words = ("patterns", "holds a few numbers in places that never change", "any numbers near them")
    yield moved, words


def _signs_of_few(tensor: torch.Tensor, seen: Domain, _: torch.Generator) -> _Made:
    """All of them: of a weight it is no chance that so few have one sign."""
    if seen.kind in _OPEN and tensor.numel() < _FEWEST and seen.low * seen.high > 0:
        sign = "negative" if seen.high > 0 else "positive"
        yield -wide(tensor), ("signs", f"holds no {sign} numbers", f"{sign} ones")


def _sums(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    if seen.kind not in ("simplex", "log_simplex"):
        return
    values = wide(tensor)
    shape = list(values.shape)
    shape[seen.simplex_dim] = 1
    octaves = _octaves(tensor, values)
    places = 2 * torch.rand(shape, generator=generator) - 1
    factors = torch.exp2(octaves * places).to(values.device)
    sums = "sum to one" if seen.kind == "simplex" else "are logarithms of what sums to one"
    tried = f"rows with sums up to {2**octaves:.0f} times as large or as small"
    changed = values * factors if seen.kind == "simplex" else values + factors.log()
    yield changed, ("sums", f"holds rows that {sums}", tried)


def _single_numbers(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    """As a temperature or a scale is: one size in each draw, small and large in turn."""
    if seen.kind not in SIZED or seen.scale == 0 or tensor.numel() >= _FEWEST:
        return
    values = wide(tensor)
    octaves = _octaves(tensor, values)
    for quarter in range(_QUARTERS):
        place = 2 * (quarter + _drawn(values, generator)) / _QUARTERS - 1
        yield values * torch.exp2(octaves * place), _sized(octaves, "numbers")


def _elements(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    """Each fourth element of a few rows, so that every size is the largest of some row."""
    if seen.kind not in SIZED or seen.scale == 0 or tensor.numel() < _FEWEST:
        return
    values = wide(tensor)
    octaves = _octaves(tensor, values)
    factors = torch.exp2(octaves * (2 * _drawn(values, generator) - 1))
    few = _drawn(values, generator) < _SHARE
    yield torch.where(few, values * factors, values), _sized(octaves, "single elements")


def _ten_times(tensor: torch.Tensor, seen: Domain, _: torch.Generator) -> _Made:
    """As a weight becomes that training has made sure."""
    if seen.kind in SIZED and seen.scale > 0:
        words = "magnitudes", "is as large as your draws are", f"{_LARGER:.0f} times that"
        yield wide(tensor) * _LARGER, words


def _rows(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    if seen.kind not in SIZED or seen.scale == 0 or tensor.dim() == 0:
        return
    values = wide(tensor)
    octaves = _octaves(tensor, values)
    yield values * _for_rows(values, octaves, generator), _sized(octaves, "whole rows")


def _tiny_rows(
    constants: Sequence[float], tensor: torch.Tensor, seen: Domain, generator: torch.Generator
) -> _Made:
    """Rows about as small as the smallest numbers of the reference, which it may add to a norm."""
    if seen.kind not in SIZED or seen.scale == 0 or tensor.dim() == 0:
        return
    least = math.sqrt(torch.finfo(torch.float32).tiny) * _LARGER
    small = [n for n in constants if least <= n < _TINY * seen.scale]
    if not small or torch.finfo(tensor.dtype).tiny > least:
        return
    values = wide(tensor)
    shape = (*values.shape[:-1], 1)
    sizes = torch.tensor(small)[torch.randint(len(small), shape, generator=generator)]
    factors = sizes * torch.exp2(4 * torch.rand(shape, generator=generator) - 3)
    rows = values.double().square().sum(-1, keepdim=True).sqrt().clamp_min(seen.scale * _TINY)
    tried = f"rows whose norm is about {', '.join(f'{n:g}' for n in small[:3])}, as a number of your module is,"
    yield (
        values * (factors.to(values) / rows.to(values)),
        ("magnitudes", "is as large as your draws are", tried),
    )


def _nearly_equal(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    """Elements of a row that differ from another of it in their last bits alone, as what is sorted or chosen may."""
    if seen.kind not in SIZED or seen.constant or tensor.dim() == 0 or tensor.shape[-1] < _FEWEST:
        return
    values = wide(tensor)
    columns = values.shape[-1]
    from_ = torch.randint(columns, values.shape, generator=generator).to(values.device)
    steps = torch.randint(-_LAST_BITS, _LAST_BITS + 1, values.shape, generator=generator)
    eps = torch.finfo(tensor.dtype).eps
    near = values.gather(-1, from_) * (1 + eps * steps.to(values))
    chosen = _drawn(values, generator) < 0.5
    words = (
        "near_equals",
        "has no elements in one row that differ in their last bits alone",
        "rows with such",
    )
    yield torch.where(chosen, near, values), words


def _offsets(tensor: torch.Tensor, seen: Domain, generator: torch.Generator) -> _Made:
    if seen.kind != "real" or seen.scale == 0 or tensor.dim() == 0:
        return
    values = wide(tensor)
    octaves = _octaves(tensor, values)
    shifts = seen.scale * _for_rows(values, octaves, generator)
    signs = 1 - 2 * (torch.rand(shifts.shape, generator=generator) < 0.5).to(shifts)
    words = (
        "magnitudes",
        "is spread around zero as your draws are",
        f"rows around up to {2**octaves:.0f} times that",
    )
    yield values + shifts * signs, words


def _fading(tensor: torch.Tensor, seen: Domain, _: torch.Generator) -> _Made:
    if seen.kind not in SIZED or seen.scale == 0:
        return
    values = wide(tensor)
    room = math.log2(seen.scale / torch.finfo(tensor.dtype).tiny)
    octaves = max(0.0, min(_FADES, room / 2))
    for dim, size in enumerate(tensor.shape):
        if size >= _FEWEST:
            shape = [size if place == dim else 1 for place in range(tensor.dim())]
            falls = torch.exp2(-octaves * torch.arange(size) / (size - 1)).reshape(shape)
            tried = f"numbers that fall along dimension {dim} to a 2^{octaves:.0f}th"
            yield values * falls.to(values), ("magnitudes", "is as large as your draws are", tried)


_OF_SIZES: tuple[_Maker, ...] = (_elements, _rows, _offsets, _fading)
_OF_COMPLEX: tuple[_Maker, ...] = (_single_numbers, _elements, _rows, _fading)
"""What is said of sizes; complex numbers have no order."""


def _sized(octaves: float, what: str) -> _Words:
    return (
        "magnitudes",
        "is as large as your draws are",
        f"{what} up to {2**octaves:.0f} times as large or as small",
    )


def _octaves(tensor: torch.Tensor, values: torch.Tensor) -> float:
    """So many that the largest stays far from the end of the type's range."""
    finite = values.abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    largest = max(float(finite.max()), torch.finfo(tensor.dtype).tiny)
    room = torch.log2(torch.tensor(torch.finfo(tensor.dtype).max / largest, dtype=torch.float64))
    return max(0.0, min(_OCTAVES, float(room) / 2))


def _for_rows(values: torch.Tensor, octaves: float, generator: torch.Generator) -> torch.Tensor:
    shape = (*values.shape[:-1], 1)
    return torch.exp2(octaves * (2 * torch.rand(shape, generator=generator) - 1)).to(values.device)
