"""The main job as a user does it: from another folder, by a relative path, and what comes after it."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu_first.options import Options
from benchmarks.gpu_first.programs import Ended, kernelagent, program
from benchmarks.gpu_first.record import Record
from benchmarks.gpu_first.sizes import EXAMPLES, write_at_gpu_size
from benchmarks.turn_latency import rms_norm_candidate

EXAMPLE = "rms_norm_residual"
_USE = """
import sys
import torch
sys.path.insert(0, "examples")
from rms_norm_residual import Model, get_init_inputs, get_inputs
from emitted import ModelNew, optimized
device = sys.argv[1]
model = Model(*get_init_inputs()).to(device).eval()
inputs = [x.to(device) for x in get_inputs()]
with torch.no_grad():
    for mine, theirs in zip(optimized(model)(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2)
print("ok")
"""


def optimize(record: Record, options: Options) -> str:
    """The example at both sizes; then what a user does with the emitted file."""
    record.head(
        "what", "how it ended", "seconds", "candidate µs", "eager µs", "speedup", "disclosed"
    )
    done = []
    for size in ("as shipped", "at its size for a GPU"):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            _workplace(folder, at_gpu_size=size != "as shipped")
            done += _one_size(record, folder, size, options)
    wrong = [what for what, ended in done if ended.status != 0]
    return f"{len(done) - len(wrong)} of {len(done)} commands ended with 0" + (
        f"; NOT: {', '.join(wrong)}" if wrong else ""
    )


def profiles(record: Record, options: Options) -> str:
    """What CUPTI, the compiler, a graph and the counters say of one candidate's kernels."""
    record.head("kernel", "tier", "device µs", "share", "registers", "occupancy", "counters")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _workplace(folder, at_gpu_size=options.device == "cuda")
        (folder / "candidate.py").write_text(rms_norm_candidate(), encoding="utf-8")
        device = ("--device", options.device)
        alone = kernelagent("profile", f"examples/{EXAMPLE}.py", *device, seconds=90, folder=folder)
        both = kernelagent(
            "profile", f"examples/{EXAMPLE}.py", "candidate.py", *device, seconds=120, folder=folder
        )
    rows = alone.data.get("reference", [])
    for row in rows:
        record.note(f"reference: {json.dumps(row)[:300]}")
    result = both.data.get("candidate") or {}
    for kernel in result.get("kernels", []):
        record.add(
            kernel["name"], kernel["tier"], kernel.get("device_us"),
            kernel.get("share_of_device_time"), kernel.get("registers"), kernel.get("occupancy"),
            kernel.get("counters") or "none",
        )  # fmt: skip
    timing = result.get("timing") or {}
    for name in ("as_called_us", "device_us", "eager_us", "compile_us"):
        record.note(f"{name}: {timing.get(name)}")
    for reported in result.get("disclosures", []):
        record.note(f"{reported['code']}: {reported['message']}")
    return (
        f"without a candidate {alone.shown}, with one {both.shown}: {len(rows)} rows of the reference, "
        f"{len(record.rows)} kernels"
    )


def _workplace(folder: Path, *, at_gpu_size: bool) -> None:
    """A user's own folder with `examples/` in it."""
    examples = folder / "examples"
    examples.mkdir()
    if at_gpu_size:
        write_at_gpu_size(EXAMPLES / f"{EXAMPLE}.py", examples)
    else:
        shutil.copy(EXAMPLES / f"{EXAMPLE}.py", examples)


def _one_size(record: Record, folder: Path, size: str, options: Options) -> list[tuple[str, Ended]]:
    problem, device = f"examples/{EXAMPLE}.py", ("--device", options.device)
    run = kernelagent(
        "optimize", problem, "--turns", options.turns, "--out", "emitted.py", *device,
        seconds=100, folder=folder,
    )  # fmt: skip
    winner = run.data.get("winner") or {}
    _add(record, f"optimize, {size}", run, winner)
    done = [(f"optimize, {size}", run)]
    if run.status != 0:
        record.note(f"optimize, {size}: {run.data.get('why') or run.errors.strip()[-300:]}")
        return done
    judged = kernelagent("evaluate", problem, "emitted.py", *device, seconds=60, folder=folder)
    _add(record, f"evaluate, {size}", judged, judged.data)
    again = kernelagent("recheck", "emitted.py", problem, *device, seconds=60, folder=folder)
    _add(record, f"recheck, {size}", again, {})
    used = program(
        [sys.executable, "-c", _USE, "cpu" if options.device == "virtual" else "cuda"],
        seconds=60, folder=folder,
    )  # fmt: skip
    done += [(f"evaluate, {size}", judged), (f"recheck, {size}", again)]
    if options.device == "cuda":
        _add(record, f"emitted file in a script, {size}", used, {})
        done.append((f"emitted file in a script, {size}", used))
    return done


def _add(record: Record, what: str, ended: Ended, evaluation: dict[str, Any]) -> None:
    timing = evaluation.get("timing") or evaluation.get("estimate") or {}
    against = timing.get("speedup_eager") or {}
    speedup = "not timed"
    if against:
        speedup = f"{against['value']:.2f} ({against['low']:.2f} to {against['high']:.2f})"
    codes = sorted({reported["code"] for reported in evaluation.get("disclosures", [])})
    record.add(
        what, ended.shown, f"{ended.seconds:.0f}", _number(timing.get("candidate_us")),
        _number(timing.get("eager_us")), speedup, ", ".join(codes),
    )  # fmt: skip


def _number(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else ""
