"""Numbers that stand in the place of a result, such as the -1e9 of a hidden score, and are no part of its size.

Beside them everything else is nothing: errors and sizes of the others are taken without them.
"""

from __future__ import annotations

import math

import torch

_GAP = 12
"""Powers of two between the largest of the others and the smallest of these, with nothing between."""
_TOGETHER = 1
"""Powers of two within which all of them lie: scores are added to some."""
_FEWEST = 4
_SHARE_OF_OTHERS = 0.02
_CHUNK = 1 << 20
_LOOKED_AT_FIRST = 4096
_LOWEST, _HIGHEST = -1100, 1100
"""Exponents of float64."""


def without_fills(values: torch.Tensor) -> torch.Tensor:
    """The others, in one dimension; all of them where there are no such numbers."""
    filled = fills(values)
    return values if filled is None else values[~filled]


def fills(values: torch.Tensor) -> torch.Tensor | None:
    """Where they are; None where there are none. `values`: the right answer in float64."""
    if values.is_complex() or values.numel() < 2 * _FEWEST or _has_some_between(values):
        return None
    counts = torch.zeros(_HIGHEST - _LOWEST + 1, dtype=torch.int64)
    flat = values.detach().reshape(-1)
    for start in range(0, flat.numel(), _CHUNK):
        part = flat[start : start + _CHUNK].to(torch.float64)
        part = part[part.isfinite() & (part != 0)]
        exponents = torch.frexp(part).exponent.to(torch.int64).cpu() - _LOWEST
        counts += torch.bincount(exponents, minlength=len(counts))
    there = counts.nonzero().reshape(-1).tolist()
    if len(there) < 2:
        return None
    lowest = next((at for at in there if there[-1] - at <= _TOGETHER), there[-1])
    below = [at for at in there if at < lowest]
    others, many = int(counts[:lowest].sum()), int(counts[lowest:].sum())
    if not below or lowest - below[-1] <= _GAP or many < _FEWEST:
        return None
    if others < max(_FEWEST, _SHARE_OF_OTHERS * (others + many)):
        return None
    least = math.ldexp(1.0, lowest + _LOWEST - 1)
    return values.isfinite() & (values.abs() >= least)


def _has_some_between(values: torch.Tensor) -> bool:
    """Whether the first of them show that there is no gap, which is so of most results."""
    sizes = values.detach().abs()
    largest = sizes.amax()
    if not bool(largest.isfinite()):
        return False
    some = sizes.reshape(-1)[:_LOOKED_AT_FIRST]
    # Wherever in two powers of two the smallest of such numbers lies, this is in the gap below it.
    between = (some < largest * 2.0 ** -(_TOGETHER + 2)) & (some >= largest * 2.0 ** (1 - _GAP))
    return bool(between.any())
