"""Errors that all elements at an index share and that cancel over the whole: a factor or an offset by row or column.

Rounding errs at random: over the elements of a row or a column its slope on the right values and its offset are
far below one rounding. A kernel may round a value that a whole row needs, such as its scale, and errs by at most
that. Indices that err by more, in whatever pattern of signs, do so together or one alone. Where a row is a sum that
nearly cancels, the rounding of its terms is one that the whole row shares, as large as the sum: what the inputs' own rounding moves there is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from kernelagent.tools.calls.torch_dtypes import HALVES
from kernelagent.tools.judge.verify.compare.regions import Noise
from kernelagent.tools.judge.verify.compare.within_budget.slices import dimensions

_FEWEST = 16
"""Elements at an index."""
_FEWEST_ALONE = 96
"""Elements at an index that is looked at alone."""
_FEWEST_INDICES = 16
_SHARE_CARRYING = 1 / 6
"""Of the elements at an index so many must carry its slope, and values at random make it a third: what fewer have
in common is chance."""
_MOST_ELEMENTS = 1 << 21
"""Of larger outputs nothing is taken to float64 at once."""
_KEPT = 7 / 8
"""Of the indices so many are looked at together: the furthest may be far off by chance."""
_CHANCE = 7.0
"""Standard errors; thousands of comparisons are made of each judging."""
_OWN = 2.0
_ROUNDINGS = {"factor": 2.0, "offset": 1.0}
"""Values of the output's type that all elements at an index may share: a scale of their row, and one of its parts."""
_WELL_KNOWN = 2.0
"""Half units by which the inputs' own rounding moves the values at an index, relative to their size, wherever nothing
cancels: it explains nothing there that all of them share, and twice of what is beyond where something does."""
_NEARLY_EQUAL = 0.01
"""Share of a row's mean square that its variance is."""
_UNIFORM = 0.3
"""Standard deviation of the square of a number between -1 and 1, in units of the largest."""
Kind = Literal["factor", "offset"]


@dataclass(frozen=True)
class Shared:
    """An error that is the same for all elements at an index."""

    kind: Kind
    dim: int
    rank: int
    at: int | None
    """None: of all indices together."""
    size: float
    """Relative to the right values' size; as RMS over the indices where it is of all."""
    allowed: float

    @property
    def message(self) -> str:
        noun = {1: "column", 2: "row"}.get(self.rank - self.dim)
        place = f"index of dimension {self.dim}" + (f" ({noun})" if noun else "")
        where = f"at each {place}" if self.at is None else f"at {place} {self.at}"
        what = (
            f"are the right values times a factor that is {self.size:.4f} off 1"
            if self.kind == "factor"
            else f"are off by {self.size:.4f} of their size, all to one side"
        )
        return (
            f"not rounded at random: {where} all elements {what}, where a shared value's rounding explains "
            f"{self.allowed:.4f}; over the whole these errors cancel"
        )


@dataclass(frozen=True)
class _ByIndex:
    """One number for each index of a dimension, and its standard error, both relative to the right values."""

    value: torch.Tensor
    error: torch.Tensor

    def at(self, places: torch.Tensor) -> _ByIndex:
        return _ByIndex(self.value[places], self.error[places])


def shared_error(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    noise: Noise | None = None,
) -> Shared | None:
    """What all elements at an index of a dimension share, where rounding does not explain it.

    `noise`: how far inputs that are known to their rounding move each index, as `slice_norms` has them.

    Only for 16-bit outputs of two dimensions and more: in float32 the gate is as narrow. Indices where
    eager itself is not within one unit of its type are not looked at.
    """
    size = oracle64.numel()
    if eager.dtype not in HALVES or oracle64.dim() < 2 or not 0 < size <= _MOST_ELEMENTS:
        return None
    right = oracle64.to(torch.float64)
    ours, theirs = (t.to(right) - right for t in (candidate, eager))
    if not all(bool(t.isfinite().all()) for t in (right, ours, theirs)):
        return None
    half_unit = float(torch.finfo(eager.dtype).eps) / 2
    for dim, length in enumerate(right.shape):
        if length < _FEWEST_INDICES or size // length < _FEWEST:
            continue
        own, usual, exact = (t.movedim(dim, 0).reshape(length, -1) for t in (ours, theirs, right))
        moved = None if noise is None else _moved(noise, right, dim)
        result = _along(own, usual, exact, half_unit, moved)
        if result is not None:
            kind, at, value, allowed = result
            return Shared(kind, dim, right.dim(), at, value, allowed)
    return None


def _moved(noise: Noise, right: torch.Tensor, dim: int) -> torch.Tensor | None:
    """By how much of its size each index is moved; None where it was not measured along this dimension."""
    begin = 0
    for measured in dimensions(right.shape):
        length = right.shape[measured]
        if measured == dim:
            size = right.movedim(dim, 0).reshape(length, -1).square().mean(1).sqrt()
            own = noise.rms[begin : begin + length].to(size)
            return torch.where(size > 0, own / size, 0.0)
        begin += length
    return None


def _along(
    ours: torch.Tensor,
    theirs: torch.Tensor,
    right: torch.Tensor,
    half_unit: float,
    moved: torch.Tensor | None,
) -> tuple[Kind, int | None, float, float] | None:
    power = right.square().sum(1)
    known = theirs.square().sum(1) <= (2 * half_unit) ** 2 * power
    carried = (ours * right).abs()
    enough = _SHARE_CARRYING * right.shape[1]
    known &= (carried.sum(1).square() >= enough * carried.square().sum(1)) & (power > 0)
    places = known.nonzero().reshape(-1)
    if len(places) < _FEWEST_INDICES:
        return None
    ours, theirs, right = ours[places], theirs[places], right[places]
    kinds: tuple[Kind, ...] = ("factor", "offset")
    alone = right.shape[1] >= _FEWEST_ALONE
    known_to = torch.zeros(len(places)).to(right) if moved is None else moved[places]
    known_to = _OWN * (known_to - _WELL_KNOWN * half_unit).clamp(min=0.0)
    for kind in kinds:
        of = _factors if kind == "factor" else _offsets
        both = of(ours, right), of(theirs, right)
        result = _beyond(*both, half_unit, _ROUNDINGS[kind], alone, known_to)
        if result is not None:
            at, value, allowed = result
            return kind, None if at is None else int(places[at]), value, allowed
    return None


def _factors(error: torch.Tensor, right: torch.Tensor) -> _ByIndex:
    """The slope of each row's error on its right values."""
    power = right.square().sum(1, keepdim=True)
    slope = (error * right).sum(1, keepdim=True) / power
    return _ByIndex(slope[:, 0], _deviation(error - slope * right, right / power, 1))


def _offsets(error: torch.Tensor, right: torch.Tensor) -> _ByIndex:
    """Each row's error where its right values are zero, by a line through both; relative to their size.

    Where the values of a row are nearly equal an offset is a factor, and none is told.
    """
    size = right.square().mean(1, keepdim=True).sqrt()
    middle = right.mean(1, keepdim=True)
    about = right - middle
    spread = about.square().sum(1, keepdim=True)
    equal = (spread < _NEARLY_EQUAL * right.square().sum(1, keepdim=True))[:, 0]
    spread = torch.where(equal[:, None], 1.0, spread)
    slope = (error * about).sum(1, keepdim=True) / spread
    offset = error.mean(1, keepdim=True) - slope * middle
    weights = 1 / right.shape[1] - middle * about / spread
    deviation = _deviation(error - slope * right - offset, weights, 2)
    return _ByIndex(
        torch.where(equal, 0.0, (offset / size)[:, 0]),
        torch.where(equal, 0.0, deviation / size[:, 0]),
    )


def _deviation(rest: torch.Tensor, weights: torch.Tensor, fitted: int) -> torch.Tensor:
    """Standard error of a weighted sum of errors of unequal size."""
    few = rest.shape[1] / (rest.shape[1] - fitted)
    return few * (rest * weights).square().sum(1).sqrt()


def _beyond(
    ours: _ByIndex,
    theirs: _ByIndex,
    half_unit: float,
    roundings: float,
    alone: bool,
    known_to: torch.Tensor,
) -> tuple[int | None, float, float] | None:
    """Index (None: all together), size and what is explained; None where rounding explains it."""
    well = known_to == 0
    count = int(well.sum())
    if count < _FEWEST_INDICES:
        return None
    together, chance = _together(ours.at(well))
    own, _ = _together(theirs.at(well))
    spread = roundings / 3 + _CHANCE * roundings**0.5 * _UNIFORM / math.sqrt(count)
    allowed = half_unit**2 * spread + _OWN**2 * own + _CHANCE * chance
    if together > allowed:
        return None, math.sqrt(together), math.sqrt(allowed)
    if not alone:
        return None
    limit = roundings * half_unit + _OWN * theirs.value.abs().amax() + _CHANCE * ours.error
    limit = limit + known_to
    over = ours.value.abs() / limit
    worst = int(over.argmax())
    if float(over[worst]) <= 1.0:
        return None
    return worst, float(ours.value[worst].abs()), float(limit[worst])


def _together(of: _ByIndex) -> tuple[float, float]:
    """Mean square over most of the indices beyond what chance makes of it, and the chance of that."""
    squares = of.value.square().sort().values[: int(_KEPT * len(of.value))]
    chance = of.error.square()
    excess = float(squares.mean()) - float(chance.mean())
    return max(0.0, excess), float((2 * chance.square().mean() / len(squares)).sqrt())
