"""Large elements that are off by many roundings: the largest of a row may be another's, and an order another order.

The budget of a 16-bit output is as wide as eight of eager's worst errors anywhere; an element that is as large as most
has no reason to err like the worst. What is found is told.
"""

from __future__ import annotations

import torch

from kernelagent.tools.calls.torch_dtypes import HALVES

_FEWEST = 64
_TIMES = 4.0
"""How many times further off than eager's own worst: a kernel may round a few times where eager rounds once."""


def large_elements_off(
    candidate: torch.Tensor, eager: torch.Tensor, oracle64: torch.Tensor
) -> str | None:
    """A sentence; None where elements as large as the output's RMS and larger are as near as rounding explains."""
    if eager.dtype not in HALVES:
        return None
    right = oracle64.reshape(-1).to(torch.float64)
    ours, theirs = (t.reshape(-1).to(right) for t in (candidate, eager))
    fine = right.isfinite() & ours.isfinite() & theirs.isfinite()
    right, ours, theirs = right[fine], ours[fine], theirs[fine]
    if not right.numel():
        return None
    large = right.abs() >= right.square().mean().sqrt()
    large &= right != 0
    right, ours, theirs = right[large], ours[large], theirs[large]
    if right.numel() < _FEWEST:
        return None
    off, usual = ((t - right).abs() / right.abs() for t in (ours, theirs))
    most = float(usual.max().clamp_min(float(torch.finfo(eager.dtype).eps) / 2))
    over = off > _TIMES * most
    if not bool(over.any()):
        return None
    return (
        f"{int(over.sum())} of the {right.numel()} largest elements are off by up to {float(off.max()):.1%} of their "
        f"value, your module's own by {most:.1%} at most"
    )
