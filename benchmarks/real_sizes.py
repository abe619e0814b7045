"""KernelBench problems at their own sizes without a GPU: does each end, with how much memory, how soon?

    python benchmarks/real_sizes.py PATH_TO_KERNELBENCH --count 60 --memory-limit 4G
    python benchmarks/real_sizes.py PATH_TO_KERNELBENCH --count 60 --memory-limit 4G --plan-only

Each problem is a process of its own, `kernelagent optimize --model compiler --turns 1`, under a data
limit; the memory of its whole process tree is sampled (proportional set size: shared pages count
once). With --plan-only nothing is judged: what would be executed, and what that needs, is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_GUARD_BYTES = 8 << 30
_EVERY_S = 0.5
_GRACE_S = 10.0
_PLAN = """
import sys, time
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.memory_plan import plan
from kernelagent.domain.configuration.judge_settings import bytes_of
from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda
began = time.process_time()
scope = lambda: pretending_cuda("sm_90")
with scope():
    problem = load_problem(ProblemSpec(path=sys.argv[1]))
made = plan(problem, "cpu", scope, bytes_of(sys.argv[2]))
said = "; ".join(str(s.shrunk) if s.shrunk else "as given" for s in made.sources)
print(f"{made.need.total / 1e9:.1f} GB planned, {time.process_time() - began:.1f} s of CPU: {said}")
"""


def main() -> int:
    """Print a Markdown table, a row for each problem."""
    args = _arguments()
    problems = _sample(args.kernelbench, args.levels.split(","), args.count, args.seed, args.only)
    problems = problems[args.begin :]
    if not problems:
        sys.exit(
            f"no problem found under {args.kernelbench} in {args.levels}: give the folder that holds "
            f"level1, level2 and level3, and names as their files begin"
        )
    print(
        "| problem | exit | ends with | estimate, µs | eager | compile | peak memory, GB | s | CPU s "
        "| described, s | turn, s | again, s |\n"
        "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        flush=True,
    )
    for path in problems:
        with tempfile.TemporaryDirectory() as folder:
            row = measured(_command(path, args, folder), folder, args.seconds)
        print(f"| {path.parent.name}/{path.stem} | {' | '.join(row)} |", flush=True)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "kernelbench", type=Path, help="the checkout's folder with level1, level2 …"
    )
    parser.add_argument("--levels", default="level1,level2,level3")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of names")
    parser.add_argument("--memory-limit", default="4G")
    parser.add_argument("--seconds", type=float, default=600.0, help="a problem")
    parser.add_argument(
        "--judging-seconds", default="120", help="of one candidate; more on a busy machine"
    )
    parser.add_argument("--from", dest="begin", type=int, default=0, help="of the sample, by place")
    parser.add_argument("--plan-only", action="store_true")
    parser.add_argument("--train", action="store_true", help="with gradients, in training mode")
    return parser.parse_args()


def _sample(root: Path, levels: list[str], count: int, seed: int, only: list[str]) -> list[Path]:
    every = [path for level in levels for path in sorted((root / level).glob("*.py"))]
    if only:
        return [path for path in every if path.stem.startswith(tuple(only))]
    return sorted(random.Random(seed).sample(every, min(count, len(every))))


def _command(path: Path, args: argparse.Namespace, folder: str) -> list[str]:
    if args.plan_only:
        return [sys.executable, "-c", _PLAN, str(path), args.memory_limit]
    rest = ["--train"] if args.train else []
    return optimizing(path, folder, args.memory_limit, args.judging_seconds, *rest)


def optimizing(
    path: Path, folder: str, memory_limit: str, judging_seconds: str, *rest: str
) -> list[str]:
    """The command that has the built-in policy write one candidate, and judges it."""
    return [
        *(sys.executable, "-m", "kernelagent", "optimize", str(path), "--model", "compiler"),
        *("--turns", "1", "--device", "virtual", "--memory-limit", memory_limit, "--json"),
        *("--judging-seconds", judging_seconds, *rest),
        *("--runs", f"{folder}/runs", "--out", f"{folder}/out.py", "--yes"),
    ]


def measured(command: list[str], folder: str, seconds: float) -> list[str]:
    """Run it for so long at most; the columns of its row as `main` heads them, without the problem's name."""
    began, used = time.monotonic(), _cpu_s()
    with Path(folder, "out").open("w+b") as out, Path(folder, "err").open("w+b") as err:
        process = subprocess.Popen(
            command, stdout=out, stderr=err, preexec_fn=_guard, start_new_session=True
        )
        peak = 0
        while process.poll() is None and time.monotonic() - began < seconds:
            peak = max(peak, sum(map(_pss, _tree(process.pid))))
            time.sleep(_EVERY_S)
        late = process.poll() is None
        if late:
            _end(process)
    if late:
        ended = ["–", "not ended in time", "", *map(str, _of_the_reference(folder))]
    else:
        ended = _said(folder, process.returncode)
    seconds = time.monotonic() - began
    cost = [f"{peak / 1e9:.1f}", f"{seconds:.0f}", f"{_cpu_s() - used:.0f}"]
    return [*ended, *cost, *stages(Path(folder, "runs"))]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to stop, then end it and every process below it: judge and author lead groups of their own."""
    every = list(_tree(process.pid))
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    for pid in {*every, *_tree(process.pid)}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _cpu_s() -> float:
    """Processor time of everything that was waited for so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _guard() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (_GUARD_BYTES, _GUARD_BYTES))


def _said(folder: str, status: int) -> list[str]:
    out = Path(folder, "out").read_text(errors="replace").strip()
    err = Path(folder, "err").read_text(errors="replace").strip()
    last = (err.splitlines() or [""])[-1]
    estimates: list[Any] = []
    try:
        report = json.loads(out)
    except json.JSONDecodeError:
        report = None
    if isinstance(report, dict):
        last = str(report.get("why") or report.get("message") or last)
        estimates = _estimates(report)
        if estimates:
            last = str(report["outcome"])
    elif status == 0:
        last = out.splitlines()[-1] if out else ""
    if "Traceback" in err:
        last = f"TRACEBACK {last}"
    text = last[:400].replace("|", "/").replace(str(Path.home()), "~")
    shown = estimates or ["", *_of_the_reference(folder)]
    return [str(status), text, *map(str, shown)]


def stages(runs: Path) -> list[str]:
    """Seconds of the clock, from the run's log: until it was described, its turn, judged again; empty where not reached."""
    at: dict[str, float] = {}
    for log in runs.glob("*/events.jsonl"):
        for line in log.read_text().splitlines():
            row = json.loads(line)
            at[row["kind"]] = row["time_s"]
    kinds = ("RunStarted", "ProblemDescribed", "Evaluated", "WinnerMeasured")
    begins = [at.get(kind) for kind in kinds]
    ends = begins[1:]
    return [
        f"{end - begin:.0f}" if begin is not None and end is not None else ""
        for begin, end in zip(begins[:-1], ends, strict=True)
    ]


def _of_the_reference(folder: str) -> list[Any]:
    """What the run's log says of eager and torch.compile, where no candidate was accepted."""
    for log in Path(folder, "runs").glob("*/events.jsonl"):
        for line in log.read_text().splitlines():
            facts = json.loads(line)["data"].get("facts") or {}
            if facts.get("estimates"):
                first = facts["estimates"][0]
                return [round(first[name]["value"], 2) for name in ("eager_us", "compile_us")]
    return ["", ""]


def _estimates(report: dict[str, Any]) -> list[Any]:
    """Of the candidate, of eager and of torch.compile; nothing where there is no estimate."""
    estimate = (report.get("winner") or {}).get("estimate")
    if estimate is None:
        return []
    compiled = estimate.get("compile")
    return [
        estimate["candidate_us"],
        estimate["eager_us"],
        round(compiled["value"], 2) if compiled else "",
    ]


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def _pss(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in rollup.splitlines() if line[:4] == "Pss:")


if __name__ == "__main__":
    raise SystemExit(main())
