"""An output that the plain budget refuses, judged by how far rounding moves the reference; and how much less exact it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.judge.verify.compare.gate import GateResult
from kernelagent.tools.judge.verify.compare.regions import NoiseSources

Compared = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""The candidate's, eager's, and the answer in float64 or complex128."""


def with_measured_noise(
    judge: Callable[[NoiseSources], GateResult],
    name: str,
    noise: NoiseSources,
    compared: Compared,
) -> GateResult:
    """The gate's result with this noise; where it passes, what is told of it."""
    result = judge(replace(noise, long_sum=None))
    if result.passed:
        message = (
            f"{name}: judged by the effect of rounding its inputs and steps, because eager happened "
            f"to be more exact than that: {_furthest(*compared)}"
        )
        return replace(result, disclosures=(Disclosure("measured_conditioning", message),))
    if noise.long_sum is None:
        return result
    result = judge(noise)
    message = f"{name}: less exact than eager, within the bound of one long sequential sum"
    disclosed = (Disclosure("long_sequential_sum", message),) if result.passed else ()
    return replace(result, disclosures=disclosed)


def _furthest(got: torch.Tensor, eager: torch.Tensor, oracle: torch.Tensor) -> str:
    """Where the candidate loses most of what eager keeps."""
    ours, theirs = ((each.to(oracle.dtype) - oracle).abs() for each in (got, eager))
    lost = (ours - theirs).nan_to_num(0.0, 0.0, 0.0)
    index = tuple(int(at) for at in np.unravel_index(int(lost.argmax()), tuple(lost.shape)))
    is_, has, right = (each[index].item() for each in (got, eager, oracle))
    return f"at {[*index]} it is {is_:.6g}, eager {has:.6g}, and right is {right:.6g}"
