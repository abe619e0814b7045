"""Errors of one sign in float32 results whose products may be in TF32: within the budget, and not of rounding's making.

Cutting operands off, as tensor cores do, makes products up to a thousandth too small, and eager's as well. What errs by
more, or to the other side, is a factor or a part that is left out. It is told, as another unit may cut otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

_COARSE = 2.0**-15
"""Eager's own relative error from which on products are not in float32; in float32 the gate itself is as narrow."""
_CUT_OFF = 2.0**-10
"""What cutting off both operands of a product takes at most, on average."""
_ALIKE = 5.0
"""Times how far eager's own slopes differ from index to index: all of a channel share its weights, and those are rounded."""
_OWN = 1.25
"""Times eager's own slope."""
_UNIT = 2.0**-14
_CHANCE = 8.0
_FEWEST = 96
_MOST_INDICES = 1 << 12
_MOST_ELEMENTS = 1 << 21
_KNOWN = 0.5
"""Eager's own error in a row is no more of it than this; beyond it the right values are not known to float32."""
_SHARE_CARRYING = 1 / 12
"""Of the elements so many must carry a slope, and half of those behind a ReLU do."""


def errs_to_one_side(
    candidate: torch.Tensor, eager: torch.Tensor, oracle64: torch.Tensor
) -> str | None:
    """A sentence; None where rounding, or operands cut off to TF32, explain the slope of the error on the right values."""
    if eager.dtype != torch.float32 or not _FEWEST <= oracle64.numel() <= _MOST_ELEMENTS:
        return None
    right = oracle64.to(torch.float64)
    ours, theirs = (t.to(right) - right for t in (candidate, eager))
    if not all(bool(t.isfinite().all()) for t in (right, ours, theirs)):
        return None
    if float(theirs.square().sum()) < _COARSE**2 * float(right.square().sum()):
        return None
    for place, three in _parts(ours, theirs, right):
        at, slope = _furthest(*three)
        if slope is not None:
            where = "" if place is None else f" at index {at} of dimension {place}"
            return f"{1 + slope:.5f} times the right values on average{where}"
    return None


_Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _parts(*three: torch.Tensor) -> Iterator[tuple[int | None, _Three]]:
    """The whole as one row; then a row for each index of each dimension."""
    ours, theirs, right = (t.reshape(1, -1) for t in three)
    yield None, (ours, theirs, right)
    for dim, size in enumerate(three[0].shape):
        if 1 < size <= _MOST_INDICES and three[0].numel() >= _FEWEST * size:
            ours, theirs, right = (t.movedim(dim, 0).reshape(size, -1) for t in three)
            yield dim, (ours, theirs, right)


def _furthest(
    ours: torch.Tensor, theirs: torch.Tensor, right: torch.Tensor
) -> tuple[int, float | None]:
    """Which row's slope is furthest beyond what is explained; None where none is."""
    slope, chance, carried = _slopes(ours, right)
    own, noise, _ = _slopes(theirs, right)
    margin = _UNIT + _CHANCE * (chance + noise)
    # Of what is lost in eager's own rounding, as a gradient that is zero but for it, no error is a share.
    known = theirs.square().sum(1) < _KNOWN**2 * right.square().sum(1)
    if int(known.sum()) > 1:
        margin = margin + _ALIKE * own[known].std()
    below = (_OWN * own).clamp_max(-_CUT_OFF) - margin
    above = (_OWN * own).clamp_min(0.0) + margin
    over = (slope - above).maximum(below - slope)
    over = torch.where(carried >= _SHARE_CARRYING * right.shape[1], over, -math.inf)
    over = torch.where(known, over, -math.inf)
    at = int(over.argmax())
    return at, float(slope[at]) if float(over[at]) > 0 else None


def _slopes(
    error: torch.Tensor, right: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """By row: the slope of the error on the right values, its standard error, and how many elements carry it."""
    power = right.square().sum(1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    carried = error * right
    slope = carried.sum(1, keepdim=True) / power
    deviation = ((error - slope * right) * right).square().sum(1).sqrt() / power[:, 0]
    squares = carried.square().sum(1).clamp_min(torch.finfo(torch.float64).tiny)
    return slope[:, 0], deviation, carried.abs().sum(1).square() / squares
