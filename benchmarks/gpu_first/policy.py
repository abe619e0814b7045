"""The built-in policy at real sizes: certified times, and the estimate that `virtual` would have given."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu_first.options import Options
from benchmarks.gpu_first.programs import Ended, kernelagent
from benchmarks.gpu_first.record import NotPossible, Record
from benchmarks.gpu_first.sizes import WORDS, write_at_gpu_size
from benchmarks.gpu_first.sizes import examples as shipped_examples

_COLUMNS = (
    "problem", "outcome", "candidate µs", "device µs", "eager µs", "against eager", "compile µs",
    "against compile", "estimated candidate µs", "estimated eager µs",
    "estimated over measured ratio", "seconds",
)  # fmt: skip
_RUN_S = 150.0
_ESTIMATE_S = 60.0


def examples(record: Record, options: Options) -> str:
    """Every shipped example at the sizes that it names for a GPU."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        problems = []
        for example in shipped_examples():
            problem = example
            if options.device == "cuda":
                problem = write_at_gpu_size(example, folder)
            problems.append((problem, WORDS.get(example.stem, ())))
        return _optimized(record, problems, options)


def kernelbench(record: Record, options: Options) -> str:
    """Problems from a folder that the user names, evenly picked in the order of their numbers."""
    if not options.problems:
        raise NotPossible(
            "not done: name a folder of KernelBench problems with --problems DIR (for example "
            "KernelBench/level1 of its repository)"
        )
    result = sorted(Path(options.problems).glob("*.py"), key=_number)
    if not result:
        raise NotPossible(f"not done: there is no problem file (*.py) in {options.problems}")
    chosen = evenly(result, int(options.most))
    record.note(f"{len(chosen)} of {len(result)} problems in {Path(options.problems).name}")
    return _optimized(record, [(path, ()) for path in chosen], options)


def calibration(record: Record, options: Options) -> str:
    """`benchmarks.calibrate`: its page is written beside this one."""
    from benchmarks import calibrate

    page = Path(record.folder) / "calibrate.md"
    calibrate.main(["--out", str(page)])
    lines = page.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    rows = [row for row in cells if len(row) == 6 and not row[0].startswith("---")]
    record.head(*rows[0])
    for row in rows[1:]:
        record.add(*row)
    return next(line for line in lines if "easured" in line)


def evenly(paths: Sequence[Path], most: int) -> list[Path]:
    """At most `most` of them, as far apart as possible, always the first."""
    if len(paths) <= most:
        return list(paths)
    return [paths[number * len(paths) // most] for number in range(most)]


def _number(path: Path) -> tuple[int, str]:
    first = path.stem.partition("_")[0]
    return (int(first) if first.isdigit() else 1 << 30, path.stem)


def _optimized(
    record: Record, problems: Sequence[tuple[Path, Sequence[str]]], options: Options
) -> str:
    record.head(*_COLUMNS)
    faster = accepted = 0
    for problem, names in problems:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as made:
            out = Path(made) / "emitted.py"
            run = kernelagent(
                "optimize", str(problem), "--turns", options.turns, "--device", options.device,
                "--out", str(out), "--runs", str(Path(made) / "runs"), *names, seconds=_RUN_S,
            )  # fmt: skip
            winner = run.data.get("winner") or {}
            estimate = _estimated(problem, names, out, winner, options)
        accepted += bool(winner)
        faster += bool(winner.get("faster"))
        record.add(problem.stem, *_cells(run, winner, estimate), f"{time.monotonic() - began:.0f}")
        if run.status != 0:
            record.note(f"{problem.stem}: {run.data.get('why') or run.shown}")
    return (
        f"{len(problems)} problems: {accepted} with an accepted kernel, {faster} certified faster than "
        f"eager"
    )


def _estimated(
    problem: Path, names: Sequence[str], out: Path, winner: dict[str, Any], options: Options
) -> dict[str, Any]:
    """What the virtual device says of the winner on this card; empty where it says nothing in time."""
    if winner.get("estimate"):
        return dict(winner["estimate"])
    if not winner or not out.exists():
        return {}
    judged = kernelagent(
        "evaluate", str(problem), str(out), "--device", "virtual", "--target",
        str(winner["device"]["target"]), *names, seconds=_ESTIMATE_S,
    )  # fmt: skip
    return dict(judged.data.get("estimate") or {})


def _cells(run: Ended, winner: dict[str, Any], estimate: dict[str, Any]) -> list[str]:
    timing = winner.get("timing") or {}
    outcome = str(run.data.get("outcome") or run.shown)
    ratio = ""
    if timing.get("speedup_eager") and estimate:
        ratio = f"{estimate['ratio'] / timing['speedup_eager']['value']:.2f}"
    return [
        outcome,
        _us(timing.get("candidate_us")),
        _us(timing.get("device_us")),
        _us(timing.get("eager_us")),
        _interval(timing.get("speedup_eager")),
        _us(timing.get("compile_us")),
        _interval(timing.get("speedup_compile")),
        _us(estimate.get("candidate_us")),
        _us(estimate.get("eager_us")),
        ratio,
    ]


def _us(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else "-"


def _interval(value: dict[str, float] | None) -> str:
    return f"{value['value']:.2f} ({value['low']:.2f} to {value['high']:.2f})" if value else "-"
