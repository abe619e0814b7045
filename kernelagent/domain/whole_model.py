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
    """All its calls together, inside the whole: where the host launches while the device works, only what is waited for."""
    share: float
    """Of the whole model's device time, 0 to 1; a parent holds its children's."""
    bound_us: float | None
    """What stays of `device_us` with one launch a call, at the bandwidth or compute bound; None where it cannot be counted."""
    gain_at_most: float | None
    """Speedup of the whole model were this submodule alone at its bound (Amdahl)."""
    alike: tuple[str, ...] = ()
    """Other submodules of the same class and shapes, for which the same kernels can be used."""
    cannot: str | None = None
    """Why it cannot be captured; None where it can."""
    returns: str | None = None
    """The class of its result where that is another package's, which a file that needs torch alone cannot make."""
    own_us: float | None = None
    """Of `device_us`, in its own forward, outside the parts in it; None where one of those could not be counted."""
    left_alone: str | None = None
    """Why the built-in policy does not rewrite it; None where it may. A model given with --model may write it still."""


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
    own_us: float | None = None
    """Of `total_us`, in the model's own forward, outside all rows; None where one of those could not be counted."""
    once_us: float = 0.0
    """Of `total_us`, what a forward costs once, however much it does."""
    left_alone: str | None = None
    """Why the built-in policy does not rewrite the whole model; None where it may."""
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
    """Of the optimized submodules, in all trials; answered by their kernels."""
    device: DeviceFacts
    cases: tuple[Case, ...] = ()
    before_us: float | None = None
    after_us: float | None = None
    """Both of one kind, `time`; None where it could not be said."""
    time: TimeKind = "estimate"
    faster: bool | None = None
    """None: the whole was not timed."""
    disclosures: tuple[str, ...] = field(default=())
    trains: bool = False
    """The part was judged with its backward pass. Both times are of a forward of the whole all the same."""
    by_original: int = 0
    """Calls besides, which the emitted module leaves to the original: what they are given was not verified."""
    schema: str = "kernelagent.whole_model/1"
