"""The sandbox matrix: the same steps on the device with all tiers, and without each in turn."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

from benchmarks.gpu_first.options import Options
from benchmarks.gpu_first.plan import ROOT
from benchmarks.gpu_first.record import Record
from benchmarks.gpu_first.trial import steps
from kernelagent.tools.cuda.helper import CompiledHelpers, compiled_helpers
from kernelagent.tools.judge.machine_check import check
from kernelagent.tools.sandbox.confinement import Confinement, probe
from kernelagent.tools.sandbox.spawn import ForkServer

_ENTRY = "benchmarks.gpu_first.trial:serve"
_PRELOAD = ("kernelagent.tools.candidate_runner.main", "benchmarks.gpu_first.trial")
_TRIAL_S = 30.0
FORGONE: tuple[tuple[str, ...], ...] = (
    (), ("landlock",), ("seccomp",), ("pidns",), ("netns",), ("ipcns",), ("signal scope",),
)  # fmt: skip


def matrix(record: Record, options: Options) -> str:
    """One row for each set of tiers; the last row confines nothing at all."""
    names = list(steps(options.device))
    record.head("tiers", *names, "seconds", "how it ended", "what it printed")
    available = probe()
    record.note(f"this machine can enforce: {', '.join(available.tiers)}")
    for tier, why in available.missing.items():
        record.note(f"{tier}: {why}")
    for result in check(options.device):
        record.note(
            f"doctor's canary: {result.code}: {result.status}: {result.found} {result.advice}".strip()
        )
    verdicts: dict[str, bool] = {}
    with tempfile.TemporaryDirectory() as folder:
        row = _Row(record, names, options.device, Path(folder))
        for forgone in FORGONE:
            if set(forgone) <= set(available.tiers):
                label = f"without {forgone[0]}" if forgone else "all"
                verdicts[label] = row.tried(label, forgone, sandboxed=True)
        verdicts["none"] = row.tried("none", (), sandboxed=False)
    if verdicts["all"]:
        return f"every step works with all tiers ({available.summary})"
    helping = [label for label, works in verdicts.items() if works]
    return "with all tiers a step FAILS; everything works " + (
        f"in: {', '.join(helping)}" if helping else "in no row, not even unconfined"
    )


class _Row:
    """Makes the rows; triton's own C helper is compiled once for all of them."""

    def __init__(self, record: Record, names: list[str], device: str, folder: Path) -> None:
        self._record = record
        self._names = names
        self._device = device
        self._folder = folder
        self._helpers: CompiledHelpers | None = None

    def tried(self, label: str, forgo: tuple[str, ...], *, sandboxed: bool) -> bool:
        """Add one row; returns whether every step of it worked."""
        began = time.monotonic()
        folder = self._folder / str(len(self._record.rows))
        folder.mkdir()
        with ForkServer.start(
            preload=_PRELOAD, environment={"PYTHONPATH": str(ROOT)}, forgo=forgo
        ) as warm:
            if self._device == "cuda" and self._helpers is None:
                self._helpers = compiled_helpers(warm, folder)
            outcomes, ended, printed = _tried(
                warm, folder / "scratch", self._helpers, self._device, sandboxed=sandboxed
            )
        cells = [outcomes.get(name, "not reached") for name in self._names]
        self._record.add(label, *cells, f"{time.monotonic() - began:.1f}", ended, printed)
        return all(cell == "ok" for cell in cells)


def _tried(
    warm: ForkServer,
    scratch: Path,
    helpers: CompiledHelpers | None,
    device: str,
    *,
    sandboxed: bool,
) -> tuple[dict[str, str], str, str]:
    """Outcome by step, how the process ended, and the last line of what it printed."""
    scratch.mkdir()
    if helpers is not None:
        helpers.copy_to(scratch / "triton")
    reads, writes = os.pipe()
    confinement = Confinement(
        scratch,
        readable=(Path(__file__).parent,),
        devices=None if device == "cuda" else (),
        sandboxed=sandboxed,
    )
    child = warm.fork(_ENTRY, {"device": device}, [writes], confinement)
    os.close(writes)
    ended = child.wait(_TRIAL_S)
    shown = "still running after its time" if ended is None else ended.describe()
    child.kill()
    with os.fdopen(reads, encoding="utf-8") as lines:
        reported = [json.loads(line) for line in lines]
    printed = child.output().strip().splitlines()
    outcomes = {str(item["step"]): str(item["outcome"]) for item in reported}
    return outcomes, shown, printed[-1][:200] if printed else ""
