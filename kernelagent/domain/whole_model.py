"""What is known of a whole model and its submodules: records that `scan` and `--submodule` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kernelagent.domain.evaluation import Case, DeviceFacts

TimeKind = Literal["estimate", "measured"]


@dataclass(frozen=True)
class ScanRow:
    """One submodule: what it takes of the whole, and what it could give back at most."""

    path: str
    """As `model.get_submodule` takes it."""
    kind: str
    """Name of its class."""
    calls: int
    """In one forward of the whole."""
    device_us: float
    """All its calls together."""
    share: float
    """Of the whole model's device time, 0 to 1; a parent holds its children's."""
    bound_us: float | None
    """Least time for what its calls must move and compute; None where it cannot be counted."""
    gain_at_most: float | None
    """Speedup of the whole model were this submodule alone at its bound (Amdahl)."""
    alike: tuple[str, ...] = ()
    """Other submodules of the same class and shapes, for which the same kernels can be used."""
    cannot: str | None = None
    """Why it cannot be captured; None where it can."""
    returns: str | None = None
    """The class of its result where that is another package's, which a file that needs torch alone cannot make."""


@dataclass(frozen=True)
class Scan:
    """A whole model, seen once."""

    model: str
    device: DeviceFacts
    time: TimeKind
    """`estimate`: counted bytes and operations, nothing was timed."""
    total_us: float
    """One forward of the whole."""
    rows: tuple[ScanRow, ...]
    """Most to gain first."""
    notes: tuple[str, ...] = ()
    schema: str = "kernelagent.scan/1"


@dataclass(frozen=True)
class WholeModel:
    """The whole model with optimized submodules in place, against itself."""

    model: str
    paths: tuple[str, ...]
    """Where they were put."""
    right: bool
    why: str
    """One sentence."""
    trials: int
    calls: int
    """Of the optimized submodules, in all trials."""
    device: DeviceFacts
    cases: tuple[Case, ...] = ()
    before_us: float | None = None
    after_us: float | None = None
    """Both of one kind, `time`; None where it could not be said."""
    time: TimeKind = "estimate"
    faster: bool | None = None
    """None: the whole was not timed."""
    disclosures: tuple[str, ...] = field(default=())
    schema: str = "kernelagent.whole_model/1"
