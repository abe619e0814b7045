"""Systematic errors of one sign: small enough to pass the gate of a 16-bit type, but not caused by rounding.

Rounding to nearest leaves the slope of the error on the right values near `u / sqrt(N)`. A part of a
sum left out, or a factor of 1.005, leaves a slope far above that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from kernelagent.tools.calls.torch_dtypes import HALVES

_FEWEST = 16
_OWN = 4.0
_CHANCE = 8.0
"""Standard errors of the slope that chance may make of it."""
_CARRYING = 16
"""Elements that must carry the slope: what fewer have in common is chance, and the gate's to judge."""
_SHARE_CARRYING = 1 / 6
"""Of a small output so many are enough: values at random make it a third."""
_KNOWN_TO = 0.1
"""Relative error up to which eager knows the values."""
_LARGEST_SHARE = 255 / 256
_FEW_INDICES = range(2, 16)
"""Indices of a dimension of which each is looked at; of more `shared_errors` looks at all together."""
_MOST_ELEMENTS = 1 << 22
"""Of larger outputs nothing is looked at index by index."""
_FEWEST_BESIDE = 8
"""Rows and columns at such an index: what one of them shares is then little beside what all share."""


@dataclass(frozen=True)
class SlopeAt:
    """A slope of the elements at one index, as those of one head are."""

    dim: int
    at: int
    slope: float


def slope_at_an_index(
    candidate: torch.Tensor, eager: torch.Tensor, oracle64: torch.Tensor
) -> SlopeAt | None:
    """The same of each index of a dimension that has few, so that those of heads do not cancel.

    All that is at an index may share one rounded value.
    """
    if eager.dtype not in HALVES or oracle64.numel() > _MOST_ELEMENTS:
        return None
    for dim, size in enumerate(oracle64.shape):
        rest = sorted((*oracle64.shape[:dim], *oracle64.shape[dim + 1 :]))[-2:]
        if size not in _FEW_INDICES or len(rest) < 2 or rest[0] < _FEWEST_BESIDE:
            continue
        for at in range(size):
            ours, theirs, right = (t.select(dim, at) for t in (candidate, eager, oracle64))
            slope = slope_beyond(ours, theirs, right, float(torch.finfo(eager.dtype).eps) / 2)
            if slope is not None:
                return SlopeAt(dim, at, slope)
    return None


def slope_beyond(
    candidate: torch.Tensor,
    eager: torch.Tensor,
    oracle64: torch.Tensor,
    unit: float | None = None,
) -> float | None:
    """The slope of the error on the right values, where it is larger than rounding explains.

    Only for 16-bit outputs of 16 elements or more; in float32 the gate itself is as narrow. None, too,
    where a few elements far larger than the rest would decide alone, or where eager itself does not know
    the values: a gradient that is zero but for rounding has no slope. `unit`: a slope that all may share.
    """
    if eager.dtype not in HALVES or eager.numel() < _FEWEST:
        return None
    right = oracle64.reshape(-1).to(torch.float64)
    ours = candidate.reshape(-1).to(right)
    theirs = eager.reshape(-1).to(right)
    fine = right.isfinite() & ours.isfinite() & theirs.isfinite()
    right, ours, theirs = right[fine], ours[fine], theirs[fine]
    power = float(right.square().sum())
    if right.numel() < _FEWEST or power == 0.0:
        return None
    if float((theirs - right).square().sum()) > _KNOWN_TO**2 * power:
        return None
    carried = ((ours - right) * right).abs()
    enough = min(_CARRYING, _SHARE_CARRYING * right.numel())
    if float(carried.sum()) ** 2 < enough * float(carried.square().sum()):
        return None
    if _is_of_few_rows(carried, _rows_of(oracle64)[fine]):
        return None
    unit = float(torch.finfo(eager.dtype).eps) / 4 if unit is None else unit
    slope = _unexplained(right, ours, theirs, unit)
    if slope is None:
        return None
    others = torch.ones_like(carried, dtype=torch.bool)
    others[int(carried.argmax())] = False
    # One element whose sum happened to lose its digits is no slope of the rest.
    alone = _unexplained(right[others], ours[others], theirs[others], unit) is None
    return None if alone else slope


def _rows_of(like: torch.Tensor) -> torch.Tensor:
    """For each element the number of its row."""
    length = like.shape[-1] if like.dim() > 1 else max(1, like.numel())
    return torch.arange(like.numel(), device=like.device).div(length, rounding_mode="floor")


def _is_of_few_rows(carried: torch.Tensor, rows: torch.Tensor) -> bool:
    """Whether so few rows carry it that what each of them shares is chance, as a sum that was kept rounded for a backward."""
    count = int(rows.max()) + 1
    if count < _FEWEST:
        return False
    each = carried.new_zeros(count).index_add_(0, rows, carried)
    return float(each.sum()) ** 2 < min(_CARRYING, _SHARE_CARRYING * count) * float(
        each.square().sum()
    )


def _unexplained(
    right: torch.Tensor, ours: torch.Tensor, theirs: torch.Tensor, unit: float
) -> float | None:
    power = float(right.square().sum())
    if power == 0.0:
        return None
    slope, chance = _slope(ours - right, right, power)
    own, noise = _slope(theirs - right, right, power)
    # A candidate's own scatter excuses little, or noise would hide a factor; eager's is the problem's.
    scatter = min(_CHANCE * chance, max(4 * unit, _CHANCE * noise))
    return slope if abs(slope) > unit + _OWN * abs(own) + scatter else None


def _slope(error: torch.Tensor, right: torch.Tensor, power: float) -> tuple[float, float]:
    """The slope of an error on the right values, and its standard error."""
    slope = float((error * right).sum()) / power
    return slope, _standard_error(error, right, slope, power)


def _standard_error(error: torch.Tensor, right: torch.Tensor, slope: float, power: float) -> float:
    """Of the slope, for errors of unequal size (HC3: MacKinnon and White, J. Econometrics 29, 1985).

    A large element draws the slope to itself and hides its own error; HC3 undoes that by element.
    """
    share = right.square() / power
    kept = (error - slope * right) / (1 - share).clamp_min(1 - _LARGEST_SHARE)
    return math.sqrt(float((kept * right).square().sum())) / power
