"""Systematic errors of one sign: small enough to pass the gate of a 16-bit type, but not caused by rounding.

Rounding to nearest leaves the slope of the error on the right values near `u / sqrt(N)`. A part of a
sum left out, or a factor of 1.005, leaves a slope far above that.
"""

from __future__ import annotations

import math

import torch

from kernelagent.tools.torch_dtypes import HALVES

_FEWEST = 256
_OWN = 4.0
_CHANCE = 8.0
"""Standard errors of the slope that chance may make of it."""


def slope_beyond(
    candidate: torch.Tensor, eager: torch.Tensor, oracle64: torch.Tensor
) -> float | None:
    """The slope of the error on the right values, where it is larger than rounding explains.

    Only for 16-bit outputs of 256 elements or more; in float32 the gate itself is as narrow.
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
    error = ours - right
    slope = float((error * right).sum()) / power
    own = abs(float(((theirs - right) * right).sum()) / power)
    unit = float(torch.finfo(eager.dtype).eps) / 4
    limit = unit + _OWN * own + min(_CHANCE * _standard_error(error, right, slope, power), 4 * unit)
    return slope if abs(slope) > limit else None


def _standard_error(error: torch.Tensor, right: torch.Tensor, slope: float, power: float) -> float:
    """Of the slope, for errors of unequal size (HC3: MacKinnon and White, J. Econometrics 29, 1985).

    A large element draws the slope to itself and hides its own error; HC3 undoes that by element.
    """
    share = right.square() / power
    kept = (error - slope * right) / (1 - share).clamp_min(1 / _FEWEST)
    return math.sqrt(float((kept * right).square().sum())) / power
