"""How far a value is from the right one, in units of the last place that its type can hold."""

from __future__ import annotations

import math

import torch

from kernelagent.tools.calls.torch_dtypes import HALVES

_ON_A_TIE = 1 / 64
"""Of half a unit: how near to the middle of two numbers either may be taken."""


def ulps_between(dtype: torch.dtype, got: float, wanted: float) -> float | None:
    """The difference in units of the last place of the right value; None where there is no such unit."""
    if not (math.isfinite(got) and math.isfinite(wanted) and wanted):
        return None
    facts = torch.finfo(dtype)
    size = max(abs(wanted), facts.smallest_normal)
    return round(abs(got - wanted) / (facts.eps * 2.0 ** math.floor(math.log2(size))), 2)


def correctly_rounded(got: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether each element of a 16-bit result is the right value rounded once, in the middle of two numbers to either.

    False where anything is not finite, and for other types: of those no result is known so well.
    """
    if got.dtype not in HALVES:
        return False
    exact = right.to(torch.float64)
    # torch takes float64 to 16 bits by way of float32, which near a tie may go to the other side.
    least = (exact.to(got.dtype).to(exact) - exact).abs_()
    most = least.add_(exact.abs(), alpha=_ON_A_TIE * torch.finfo(got.dtype).eps / 2)
    near = (got.to(exact) - exact).abs_() <= most
    # Beyond the type's range the nearest number is an infinity, and everything is near it.
    return bool((near & most.isfinite()).all())
