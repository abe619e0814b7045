"""What the built-in policy would write first for KernelBench's problems, with its own estimates: nothing is judged.

    python benchmarks/policy_plans.py PATH_TO_KERNELBENCH --levels level1,level2 --named conv

A row for each problem: how many kernels there are, what of torch's libraries a template takes over,
with the policy's own arithmetic on both sides, or the reason why nothing is written. As in a run without a GPU, the
program must hold at the user's sizes and at the smaller ones that the judge would execute. Seconds a problem.
"""

from __future__ import annotations

import argparse
import logging
import re
import signal
import sys
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

from kernelagent.domain.configuration.judge_settings import bytes_of
from kernelagent.domain.errors import KernelAgentError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.models.compiler.author import policy_for
from kernelagent.models.compiler.capturing.capture import PolicyCannot
from kernelagent.models.compiler.module.writing import Written
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.memory_plan import plan
from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda, with_dynamo_imported

_ESTIMATES = re.compile(r"\(estimate: (\d+) µs; torch's library: (\d+) µs\)")
_MOST_SHOWN = 4
"""Estimates that a row shows one by one; of more there is the sum."""
_LONGEST_S = 120
"""Seconds of processor time that one problem may take: planning, and the author's own 60 s."""
_KINDS = ("by a template", "Inductor's kernels alone", "nothing written", "tracebacks")


def main() -> int:
    """Print a Markdown table, and below it how many of the problems have what."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernelbench", type=Path)
    parser.add_argument("--levels", default="level1,level2")
    parser.add_argument("--named", default="", help="part of the names, in any case")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--memory-limit", default="4G", help="what the judge may use")
    args = parser.parse_args()
    logging.getLogger("torch").setLevel(logging.ERROR)
    signal.signal(signal.SIGPROF, _too_long)
    with_dynamo_imported()
    every = [p for level in args.levels.split(",") for p in sorted((args.kernelbench / level).glob("*.py"))]  # fmt: skip
    paths = [path for path in every if args.named.lower() in path.stem.lower()]
    if not paths:
        sys.exit(f"no problem of {args.levels} under {args.kernelbench} has {args.named!r} in its name")  # fmt: skip
    print("| problem | kernels | by a template | its estimate, µs | torch's library, µs |")
    print("|---|--:|---|--:|--:|")
    counts: dict[str, dict[str, int]] = {}
    for path in paths:
        kind, row = _row(path, args.target, args.memory_limit)
        level = counts.setdefault(path.parent.name, dict.fromkeys(_KINDS, 0))
        level[kind] += 1
        print(f"| {path.parent.name}/{path.stem} | {row} |", flush=True)
    for level, found in counts.items():
        print(f"\n{level}: {', '.join(f'{kind}: {number}' for kind, number in found.items())}")
    return 0


def _too_long(number: int, frame: object) -> NoReturn:
    raise PolicyCannot("it", f"it was not done after {_LONGEST_S} s of processor time")


def _row(path: Path, target: str, memory: str) -> tuple[str, str]:
    signal.setitimer(signal.ITIMER_PROF, _LONGEST_S)
    try:
        made = first_written(ProblemSpec(path=str(path)), target, memory)
    except (PolicyCannot, KernelAgentError) as error:
        return "nothing written", f"| {error} | |"
    except Exception as error:  # noqa: BLE001 - a traceback is what is being looked for
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "tracebacks", f"| {type(error).__name__} in {Path(where.filename).name} | |"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    remarks = made.remarks
    taken = [remark for remark in remarks if not remark.startswith("torch's library")]
    times = [tuple(map(int, found.groups())) for r in remarks if (found := _ESTIMATES.search(r))]
    said = f"{len(taken)} of {len(remarks)}" if remarks else "none met"
    return (
        "by a template" if taken else "Inductor's kernels alone",
        f"{made.source.count('@triton.jit')} | {said} | {_shown(times, 0)} | {_shown(times, 1)}",
    )


def _shown(times: list[tuple[int, ...]], side: int) -> str:
    numbers = [pair[side] for pair in times]
    if len(numbers) > _MOST_SHOWN:
        return f"{sum(numbers)} in all"
    return " + ".join(map(str, numbers))


def first_written(spec: ProblemSpec, target: str, memory: str) -> Written:
    """The policy's first answer; raises `PolicyCannot` with the reason where it has none."""

    def scope() -> AbstractContextManager[None]:
        return pretending_cuda(target)

    with scope():
        problem = load_problem(spec)
    made = plan(problem, "cpu", scope, bytes_of(memory))
    executed = {
        source.name: [list(t.shape) for t in tensors_of(source.draw(0))]
        for source in made.sources
        if source.shrunk is not None
    }
    return policy_for(spec, scope, target, executed, made.arguments, {}).first()


if __name__ == "__main__":
    raise SystemExit(main())
