"""Results that are nothing but rounding: what a sum has lost, kept to be made good.

Without rounding they are zero, so that no budget can ask for them; that they are not verified has to be told.
"""

from __future__ import annotations

import torch

from kernelagent.domain.evaluation import Disclosure

_FEWEST = 8
_SHARE = 2.0**-10
"""Of the module's own result: a float64 answer below it has nothing in common with that result."""
_ALIKE = 0.25
"""Of the module's own result: a product that is fused into a sum rounds a few elements otherwise."""


def rounding_alone(
    name: str, got: torch.Tensor, eager: torch.Tensor, oracle: torch.Tensor
) -> Disclosure | None:
    """None where it is more than that in float64, or the candidate's is the module's own but for a few roundings."""
    if got.shape != eager.shape or got.numel() < _FEWEST or got.is_complex():
        return None
    own, exact = _rms(eager), _rms(oracle)
    if not 0 < own < torch.inf or not exact <= _SHARE * own:
        return None
    if _rms(got.to(torch.float64) - eager.to(torch.float64)) < _ALIKE * own:
        return None
    now = _rms(got)
    what = "zeros" if now == 0 else f"others, {now:.2g} in the mean"
    return Disclosure(
        "rounding_alone",
        f"{name} of your module holds what its own rounding leaves ({own:.2g} in the mean; without rounding it is {exact:.2g}), as a "
        f"compensated sum keeps it: such numbers are not verified, and the candidate's are {what}",
    )


def _rms(tensor: torch.Tensor) -> float:
    return float(tensor.detach().to(torch.float64).square().mean().sqrt())
