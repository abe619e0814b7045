"""What can be chosen for a candidate: block sizes, warps and stages a kernel, and how rows are reduced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelagent.models.compiler.capturing.inductor_source import LONGEST_HELD_ACROSS, SECTOR_ROWS
from kernelagent.models.compiler.capturing.kept_weights import KEPT
from kernelagent.models.compiler.kernels.rewriting import Rewritten
from kernelagent.models.compiler.program.program import Kernel
from kernelagent.tools.estimates.moved_reductions import MOVED

_ELEMENTS_A_WARP = 512
_MOST_WARPS = 16
_HELD = 2048
"""Elements that a program holds of rows that are shorter."""
_LOOPED = 4096
_MOST_ROWS = 64
_FULL = 264
"""Programs that keep every multiprocessor of a large GPU busy."""


PRECEDES = "what precedes "
"""How the key of a choice begins that is no site's: whether tiles do what a launch before them did."""
GROUPED = "one launch of "
"""And of one that says whether several products share a launch."""


@dataclass(frozen=True)
class Config:
    """One kernel's launch parameters."""

    blocks: dict[str, int]
    """By Inductor's names, `XBLOCK`, `YBLOCK`, `R0_BLOCK`."""
    num_warps: int = 4
    num_stages: int = 1
    precision: str | None = None
    """How fp32 factors are multiplied, as `tl.dot` spells it; None where nothing is multiplied."""


@dataclass(frozen=True)
class Alternative:
    """A configuration that a template offers beside its usual one, and why."""

    config: Config
    words: str


@dataclass(frozen=True)
class Choice:
    """A whole candidate: how rows are reduced, and each kernel's configuration where it is not the usual."""

    persistent: bool = True
    recompute: bool = True
    """Of a backward: what is cheap is computed again, instead of kept by the forward."""
    configs: dict[str, Config] = field(default_factory=dict)
    """By kernel name as it stands in the candidate."""
    sites: Mapping[str, bool] = field(default_factory=dict)
    """Whether a template takes over a site, where that is not what the estimate says; `PRECEDES`, `GROUPED`, `MOVED` and `KEPT` alike."""

    @property
    def moved(self) -> dict[str, bool]:
        """Which reductions are moved, where that is not what the estimate says."""
        return {key: on for key, on in self.sites.items() if key.startswith(MOVED)}

    @property
    def kept(self) -> bool:
        """Whether what the weights alone decide is computed once."""
        return self.sites.get(KEPT, False)

    @property
    def rewrites(self) -> dict[str, bool]:
        """What decides the captured program, of which everything else is chosen."""
        return {**self.moved, **({KEPT: self.kept} if KEPT in self.sites else {})}


def usual(kernel: Kernel, rewritten: Rewritten, sizes: dict[str, int]) -> Config:
    """A sensible first configuration for these sizes."""
    elements = sizes.get("xnumel", 1)
    if kernel.kind == "pointwise":
        if kernel.axes != "x":
            return Config({b: 32 if b == "XBLOCK" else 16 for b in rewritten.blocks})
        block = 256 if elements < 1 << 16 else 1024
        return Config({"XBLOCK": min(block, power_of_two(elements))}, warps_for(block))
    row = sizes.get("r0_numel", 1)
    if rewritten.held is not None:
        rows = _rows(elements, rewritten.held, kernel.across)
        blocks = {"XBLOCK": rows, "R0_BLOCK": rewritten.held}
        return Config(blocks, warps_for(rows * rewritten.held))
    if kernel.across:
        # Neighbours in memory are of different rows: a program reads a part of many of them at once.
        rows = _rows(elements, LONGEST_HELD_ACROSS // _MOST_ROWS, across=True)
        block = min(_LOOPED // rows, power_of_two(row))
        return Config({"XBLOCK": rows, "R0_BLOCK": block}, warps_for(rows * block))
    block = min(2048, power_of_two(row))
    return Config({"XBLOCK": 1, "R0_BLOCK": block}, warps_for(block))


def _rows(elements: int, held: int, across: bool) -> int:
    """How many rows one program handles: enough for its threads, halved while there are fewer programs than `_FULL`."""
    most = max(1, _HELD // held)
    rows = min(_MOST_ROWS, max(most, SECTOR_ROWS) if across else most, power_of_two(elements))
    least = min(rows, SECTOR_ROWS) if across else 1
    while rows > least and elements // rows < _FULL:
        rows //= 2
    return rows


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << max(0, number - 1).bit_length()


def warps_for(elements: int) -> int:
    """Enough warps that none holds more than 512 elements, between 1 and 16."""
    return max(1, min(_MOST_WARPS, power_of_two(-(-elements // _ELEMENTS_A_WARP))))
