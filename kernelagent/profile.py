"""What the reference itself spends its time on: the records behind `kernelagent.profile/1`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernelagent.evaluation import DeviceFacts, Evaluation, HeadroomFacts

SCHEMA = "kernelagent.profile/1"


@dataclass(frozen=True)
class Operation:
    """One torch operation, or on `cuda` one kernel, of one steady forward."""

    name: str
    launches: int
    us: float
    share: float
    """Of the time of the forward, 0 to 1."""
    moved_bytes: int | None = None
    """Read and written, where it was counted."""
    bound: str | None = None


@dataclass(frozen=True)
class ReferenceProfile:
    """One input set's forward of the user's own module, dearest operation first."""

    input_set: str
    arguments: str
    us: float
    operations: tuple[Operation, ...]
    headroom: HeadroomFacts | None
    tier: Literal["counted", "traced"]
    """`counted`: an estimate from the bytes each operation moves; `traced`: measured by torch.profiler."""


@dataclass(frozen=True)
class Profile:
    """What `kernelagent profile` found; `candidate` only where one was given."""

    problem: str
    device: DeviceFacts
    reference: tuple[ReferenceProfile, ...]
    candidate: Evaluation | None = None
    schema: str = SCHEMA
