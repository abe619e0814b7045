"""Nsight Compute over one forward of an accepted candidate, asked for by a person's `profile`.

The candidate runs confined as ever, but for the network, over which ncu talks to the program it has
started. Never run on a GPU so far.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelagent.domain.errors import EnvironmentFault
from kernelagent.domain.evaluation import Disclosure, Evaluation, KernelFacts
from kernelagent.tools.candidate_runner.alone import write_forward
from kernelagent.tools.cuda.counters import (
    KernelCounters,
    command,
    counters_in,
    find_ncu,
    why_none,
)
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.sandbox.confinement import ROOT, Confinement
from kernelagent.tools.sandbox.file_access import first_lines, package_folders

_ENTRY = "kernelagent.tools.judge.timing.counting:serve"
_COUNTED_S = 300.0
_MOST_PRINTED = 16 << 20
_PRINTED = "ncu.txt"
_BOOT = (
    first_lines(4) + "sys.path.insert(0, sys.argv[1]); "
    "from kernelagent.tools.candidate_runner.alone import main; main(sys.argv[2], sys.argv[3])"
)


def serve(settings: dict[str, Any], fds: list[int]) -> None:
    """Process main: run `settings["command"]` and keep what it prints in the scratch."""
    with Path(settings["folder"], _PRINTED).open("wb") as file:
        subprocess.run(settings["command"], stdout=file, stderr=subprocess.STDOUT, check=False)


def count(context: JudgeContext, source: str, evaluation: Evaluation, scratch: Path) -> Evaluation:
    """The acceptance with the counters of its kernels, or with one line why there are none."""
    ncu = find_ncu()
    if ncu is None:
        return _without(evaluation, "ncu (Nsight Compute) is not installed here")
    _write(context, source, scratch)
    device = context.judge_device.torch_device
    wanted = command(ncu, program(scratch, device))
    confinement = Confinement(
        scratch,
        network=True,
        runnable=(ncu.parent,),
        sandboxed=context.settings.sandbox != "off",
    )
    settings = {"command": wanted, "folder": str(scratch)}
    try:
        child = context.fork_server.fork(_ENTRY, settings, [], confinement)
    except EnvironmentFault as fault:
        return _without(evaluation, str(fault))
    try:
        ended = child.wait(_COUNTED_S)
    finally:
        child.kill()
    if ended is None:
        return _without(evaluation, f"ncu took longer than {_COUNTED_S:g} s")
    written = scratch / _PRINTED
    # The process may have ended before ncu wrote anything: its own last words then say why.
    printed = _read(written) if written.exists() else child.output()
    result = counters_in(printed)
    if not result:
        return _without(evaluation, why_none(printed))
    return with_counters(evaluation, result)


def program(folder: Path, device: str) -> list[str]:
    """The command that runs the forward put down in `folder`."""
    return [sys.executable, "-P", "-c", _BOOT, ROOT, str(folder), device, *package_folders()]


def with_counters(evaluation: Evaluation, counters: Sequence[KernelCounters]) -> Evaluation:
    """The evaluation whose kernels have what was counted under their name."""
    by_name = {item.name: item for item in counters}
    kernels = tuple(_with(kernel, by_name) for kernel in evaluation.kernels)
    return replace(evaluation, kernels=kernels)


def _with(kernel: KernelFacts, by_name: Mapping[str, KernelCounters]) -> KernelFacts:
    counted = by_name.get(kernel.name)
    if counted is None:
        return kernel
    return replace(kernel, counters=counted.values, stall=counted.stall, tier=f"{kernel.tier}+ncu")


def _without(evaluation: Evaluation, why: str) -> Evaluation:
    message = Disclosure("no_counters", f"no hardware counters: {why}")
    return replace(evaluation, disclosures=(*evaluation.disclosures, message))


def _write(context: JudgeContext, source: str, scratch: Path) -> None:
    first = context.sources[0]
    how, value = context.construction
    write_forward(
        scratch,
        source=source,
        how=how,
        value=value,
        weights=context.oracle.given_weights,
        arguments=draw(first),
    )


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_PRINTED).decode(errors="replace")
