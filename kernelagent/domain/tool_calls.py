"""What a writer may ask of a candidate without spending a turn, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass

from kernelagent.domain.evaluation import Estimate, KernelFacts, Reason

CHECK = "check"


@dataclass(frozen=True)
class Checked:
    """A candidate compiled and counted at the user's sizes; nothing of it has been verified."""

    seconds: float
    fault: Reason | None = None
    """Why it does not come so far."""
    kernels: tuple[KernelFacts, ...] = ()
    estimate: Estimate | None = None
    """Of the input set that gains least; None on `cuda`, where times are measured in a turn."""
    torch_operations: tuple[str, ...] = ()
    """What torch still computes beside the kernels."""
