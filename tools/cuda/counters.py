"""A few hardware counters per kernel from Nsight Compute, where the permissions allow reading them.

Reading its output is pure; starting it is `count`, which never ran on a GPU so far. Nothing depends
on it: without ncu, or without the permission, one line says why and the traced times remain.
"""

from __future__ import annotations

import csv
import re
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SECTIONS = (
    "SpeedOfLight",
    "Occupancy",
    "MemoryWorkloadAnalysis",
    "ComputeWorkloadAnalysis",
    "WarpStateStats",
)
_COUNTERS = {
    "dram_percent": (
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    "sm_percent": ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
    "occupancy_percent": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "l2_hit_percent": ("lts__t_sector_hit_rate.pct",),
}
_ASKED = tuple(names[0] for names in _COUNTERS.values())
_TENSOR_PIPE = re.compile(r"^sm__.*pipe_tensor.*\.pct_of_peak_sustained_active$")
_STALL = re.compile(
    r"^smsp__average_warps?_(?:latency_)?issue_stalled_(\w+?)(?:_per_issue_active)?\.ratio$"
)
_ERROR = re.compile(r"^==ERROR==\s*(.+)$", re.MULTILINE)
_OS_REFUSED = re.compile(r"OS call failed|CUDA error: 304|Permission denied")
_NO_PERMISSION = "ERR_NVGPUCTRPERM"
_PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute")


@dataclass(frozen=True)
class KernelCounters:
    """The means over all launches of one kernel in one forward."""

    name: str
    launches: int
    values: dict[str, float] = field(default_factory=dict)
    """Percent, by the names of `_COUNTERS` and `tensor_percent`."""
    stall: str | None = None
    """What its warps wait for most."""


def find_ncu() -> Path | None:
    """Nsight Compute's command line, on the path or where NVIDIA installs it."""
    result = shutil.which("ncu")
    if result is not None:
        return Path(result).resolve()
    placed = [path for root in _PLACES for path in sorted(Path(root).glob("**/ncu"))[-1:]]
    return placed[0].resolve() if placed else None


def command(ncu: Path, program: Sequence[str]) -> list[str]:
    """Count what runs between the profiler's start and stop; the clocks are left alone."""
    sections = [word for name in _SECTIONS for word in ("--section", name)]
    return [
        str(ncu),
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--target-processes", "all", "--profile-from-start", "off"),
        *("--clock-control", "none", "--kernel-name-base", "function"),
        *sections,
        *("--metrics", ",".join(_ASKED)),
        *program,
    ]


def counters_in(printed: str) -> list[KernelCounters]:
    """The counters in what `ncu --csv --page raw` printed; other lines, the program's too, are passed over.

    The table begins with its header, a row of units follows, then one row a launch.
    """
    lines = printed.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return []
    rows = list(csv.DictReader(line for line in lines[start:] if line.startswith('"')))
    by_name: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        if (row.get("ID") or "").isdecimal():
            by_name.setdefault(str(row.get("Kernel Name")), []).append(row)
    return [_kernel(name, result) for name, result in by_name.items()]


def refusal_in(printed: str) -> str | None:
    """One line why nothing was counted; None when there is no sign of an error."""
    errors = _ERROR.findall(printed)
    if any(_NO_PERMISSION in error for error in errors):
        return (
            f"ncu may not read the GPU's counters here ({_NO_PERMISSION}); the administrator of the "
            f"machine can permit it"
        )
    return f"ncu: {errors[0].strip()[:200]}" if errors else None


def why_none(printed: str) -> str:
    """One line why nothing was counted, from what ncu and its program printed.

    The program that ncu starts is another process than the one that was confined, and the driver may
    be refused there what it is granted here.
    """
    refused = refusal_in(printed)
    if refused is not None:
        return refused
    if _OS_REFUSED.search(printed):
        return (
            "the sandbox refuses the CUDA driver something in the program that ncu starts; with "
            "--sandbox=off ncu may count"
        )
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    last = f"; the last it printed: {lines[-1][:200]}" if lines else ", and printed nothing"
    return f"ncu counted no kernel of the forward{last}"


def _kernel(name: str, rows: Sequence[dict[str, str]]) -> KernelCounters:
    values = {
        label: result
        for label, columns in _COUNTERS.items()
        if (result := next(iter(_means(rows, columns)), None)) is not None
    }
    pipes = [column for column in rows[0] if column and _TENSOR_PIPE.match(column)]
    if tensor := _means(rows, pipes):
        values["tensor_percent"] = max(tensor)
    return KernelCounters(name, len(rows), values, _top_stall(rows))


def _top_stall(rows: Sequence[dict[str, str]]) -> str | None:
    result = {}
    for column in rows[0]:
        named = _STALL.match(column or "")
        mean = _mean(rows, column) if named else None
        if named is not None and mean is not None:
            result[named[1]] = mean
    # Warps that are chosen, or could have been, wait for nothing.
    waiting = {name: value for name, value in result.items() if name not in _NO_WAIT and value > 0}
    return max(waiting, key=lambda name: waiting[name]).replace("_", " ") if waiting else None


_NO_WAIT = frozenset({"selected", "not_selected"})


def _mean(rows: Sequence[dict[str, str]], column: str) -> float | None:
    values = [number for row in rows if (number := _number(row.get(column))) is not None]
    return round(statistics.fmean(values), 2) if values else None


def _means(rows: Sequence[dict[str, str]], columns: Sequence[str]) -> list[float]:
    """Of the columns that hold numbers."""
    return [mean for column in columns if (mean := _mean(rows, column)) is not None]


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None
