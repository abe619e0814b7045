"""How far a value is from the right one, in units of the last place that its type can hold."""

from __future__ import annotations

import math

import torch


def ulps_between(dtype: torch.dtype, got: float, wanted: float) -> float | None:
    """The difference in units of the last place of the right value; None where there is no such unit."""
    if not (math.isfinite(got) and math.isfinite(wanted) and wanted):
        return None
    facts = torch.finfo(dtype)
    size = max(abs(wanted), facts.smallest_normal)
    return round(abs(got - wanted) / (facts.eps * 2.0 ** math.floor(math.log2(size))), 2)
