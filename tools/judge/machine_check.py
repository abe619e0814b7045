"""What `doctor` tells of kernels on this machine: whether a confined one runs, and which tiers it accepts."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kernelagent.domain.configuration.judge_settings import DEFAULT_TARGET
from kernelagent.domain.errors import EnvironmentFault
from kernelagent.tools.cuda.counters import find_ncu
from kernelagent.tools.cuda.helper import compiled_helpers
from kernelagent.tools.cuda.obstacles import closed_nodes, obstacle_in
from kernelagent.tools.judge.canary import (
    CanaryDevice,
    ConfinedCanary,
    Matrix,
    examine,
    require_kernel,
)
from kernelagent.tools.judge.fork_server import open_fork_server
from kernelagent.tools.judge.problem.devices import open_device
from kernelagent.tools.sandbox.file_access import gpu_nodes


@dataclass(frozen=True)
class Row:
    """One line of the doctor's table."""

    code: str
    status: Literal["ok", "missing", "optional"]
    found: str
    advice: str = ""


def check(asked: str) -> list[Row]:
    """Try a kernel on the device `asked` for; raises `EnvironmentFault` when there is no such device."""
    device = open_device(asked, DEFAULT_TARGET)
    on_gpu = device.kind == "cuda"
    with (
        open_fork_server(device.kind) as fork_server,
        tempfile.TemporaryDirectory(prefix="kernelagent-") as folder,
    ):
        scratch = Path(folder)
        if on_gpu:
            fork_server.triton_cache = compiled_helpers(fork_server, scratch)
        canary = ConfinedCanary(fork_server, device, scratch, traced=on_gpu)
        rows = rows_of(canary, examine(canary))
    return [*rows, *_counters()] if on_gpu else rows


def rows_of(device: CanaryDevice, matrix: Matrix) -> list[Row]:
    """The canary's line, and the matrix: a line for each tier of the sandbox."""
    return [_canary(device, matrix), *_tiers(device, matrix), *_tracing(matrix)]


def closed_gpu() -> Row | None:
    """That there is a GPU which this user may not open."""
    closed = closed_nodes(gpu_nodes())
    return None if closed is None else Row("cuda", "optional", closed.what, closed.remedy)


def _canary(device: CanaryDevice, matrix: Matrix) -> Row:
    try:
        without = require_kernel(matrix, required=False)
    except EnvironmentFault as fault:
        return Row(
            "canary", "missing", str(fault), obstacle_in(matrix.tries[-1].failure or "").remedy
        )
    if not without:
        tiers = "+".join(tier.replace(" ", "-") for tier in device.tiers)
        took = f"a confined kernel ran on {matrix.device} in {matrix.full.seconds:.1f} s ({tiers})"
        return Row("canary", "ok", took)
    return Row(
        "canary",
        "optional",
        f"a kernel runs on {matrix.device} only without {', '.join(without)}: {matrix.refused()}",
        "runs go on without it and say so; --sandbox=require refuses",
    )


def _tiers(device: CanaryDevice, matrix: Matrix) -> list[Row]:
    if matrix.full.ran:
        return [
            Row(f"driver.{tier}", "ok", "kernels run under it")
            for tier in device.tiers
            if tier not in _ALWAYS
        ]
    alone = {item.without[0]: item for item in matrix.tries if len(item.without) == 1}
    needed = matrix.without or ()
    return [
        Row(
            f"driver.{tier}",
            "optional" if tier in needed else "ok",
            "in the way: left out"
            if tier in needed
            else f"not what is in the way{'' if item.ran else ', or not it alone'}",
        )
        for tier, item in alone.items()
    ]


_ALWAYS = frozenset({"rlimits", "watch"})


def _tracing(matrix: Matrix) -> list[Row]:
    if matrix.full.tracing is None:
        return []
    return [
        Row(
            "tracing",
            "optional",
            f"the device's events cannot be traced in a candidate's process: {matrix.full.tracing}",
            "profiles then have no times of single kernels",
        )
    ]


def _counters() -> list[Row]:
    ncu = find_ncu()
    if ncu is None:
        advice = "install Nsight Compute for the hardware counters of `kernelagent profile`"
        return [Row("counters", "optional", "ncu is not installed", advice)]
    return [Row("counters", "ok", f"{ncu}; whether it may read them shows when it does")]
