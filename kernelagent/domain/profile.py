"""What the reference itself spends its time on: the records behind `kernelagent.profile/1`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernelagent.domain.estimated import Estimated
from kernelagent.domain.evaluation import DeviceFacts, Evaluation, HeadroomFacts

SCHEMA = "kernelagent.profile/1"
Mode = Literal["as built", "eval"]


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
    flops: int | None = None
    """Of its products, where they were counted; a multiply-add counts twice."""


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
class PartEstimate:
    """One operation of eager, or one kernel of a compiled module, in the order they run."""

    name: str
    us: Estimated
    """On the device; what the host adds is in the whole."""
    share: float
    """Of the device time of the forward, 0 to 1."""
    bound: str
    """`dram`, `dot`, `fp` or `launch`."""
    kernels: int
    moved_bytes: int
    flops: int


@dataclass(frozen=True)
class ForwardEstimate:
    """One forward, eager or compiled, with its 80 % interval."""

    us: Estimated
    bound: str
    """`launch`: the forward is bound by the host's kernel launches, not by the device."""
    operations: tuple[PartEstimate, ...]


@dataclass(frozen=True)
class ModuleEstimate:
    """What one forward of a module takes on a GPU that is not here, at full size, without gradients."""

    input_set: str
    arguments: str
    mode: Mode
    """`as built`: as the constructor leaves it, which is train mode unless it says otherwise."""
    eager: ForwardEstimate
    compile: ForwardEstimate
    """Under `torch.compile`, default mode."""
    compile_speedup: Estimated
    """Eager over compiled."""
    least_us: float
    """The least by inputs, weights, outputs and the operations of every operator; never above eager."""


@dataclass(frozen=True)
class Profile:
    """What `kernelagent profile` found; `candidate` only where one was given."""

    problem: str
    device: DeviceFacts
    reference: tuple[ReferenceProfile, ...]
    candidate: Evaluation | None = None
    estimates: tuple[ModuleEstimate, ...] = ()
    """On `virtual`: of each input set, the module as built first, then in eval mode if that differs."""
    untraced: str | None = None
    """Why `reference` is empty: a candidate is profiled all the same where kernels cannot be traced."""
    schema: str = SCHEMA
