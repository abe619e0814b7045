"""How long a writer's `check` takes, on the built-in policy's first answer to the problems that real writers are asked.

    python -m benchmarks.checks KERNELBENCH [--only NAME...]

KERNELBENCH is a checkout of KernelBench. Each problem is a process of its own, with one judge that is asked three times: for
the file, for the same file with other numbers of warps (all kernels are compiled anew), and for that again. Writes `results/checks.md`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.commit import head_of
from benchmarks.policy_plans import first_written
from benchmarks.real_writer_problems import Asked, wanted
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import KernelAgentError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.tool_calls import ToolCall
from kernelagent.domain.replies.tool_registry import CHECK
from kernelagent.models.compiler.capturing.capture import PolicyCannot
from kernelagent.tools.judge.judge import Judge
from kernelagent.tools.virtual.device.fake_cuda import with_dynamo_imported

_PAGE = Path(__file__).parent / "results" / "checks.md"
_ASKED_S = 3.0
_TARGET, _MEMORY = "sm_90", "4G"
_LONGEST_S = 600.0
_WARPS = re.compile(r"num_warps=(\d+)")
_MOST_WARPS = 16


@dataclass(frozen=True)
class Checks:
    """Seconds of one problem's three calls; `failed`: why there are none, or what the check refused."""

    name: str
    kind: str
    kernels: int = 0
    first_s: float = 0.0
    other_s: float = 0.0
    again_s: float = 0.0
    failed: str = ""


def main() -> None:
    """Ask for each, print its row, and write the page unless only some were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kernelbench", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="names of problems; writes nothing")
    parser.add_argument("--here", help="one problem in this process, as a line of JSON")
    options = parser.parse_args()
    if options.here:
        (asked,) = wanted([options.here])
        print(json.dumps(asdict(checked(asked, options.kernelbench))))
        return
    rows = []
    for asked in wanted(options.only):
        rows.append(_in_a_process(asked, options.kernelbench))
        print(_row(rows[-1]), flush=True)
    if not options.only:
        load = os.getloadavg()[0]
        _PAGE.write_text(page(rows, head_of(Path(__file__).parents[1]), load))


def _in_a_process(asked: Asked, kernelbench: Path) -> Checks:
    command = [sys.executable, "-m", "benchmarks.checks", str(kernelbench), "--here", asked.name]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        return Checks(asked.name, asked.kind, failed=last)
    return Checks(**json.loads(ended.stdout.splitlines()[-1]))


def checked(asked: Asked, kernelbench: Path) -> Checks:
    """The three calls on the policy's first answer."""
    logging.getLogger("torch").setLevel(logging.ERROR)
    with_dynamo_imported()
    with tempfile.TemporaryDirectory() as folder:
        path, module = asked.laid_out(kernelbench, Path(folder))
        spec = ProblemSpec(path=str(path), module=module)
        try:
            source = first_written(spec, _TARGET, _MEMORY).source
        except (PolicyCannot, KernelAgentError) as error:
            return Checks(asked.name, asked.kind, failed=str(error))
        settings = JudgeSettings(
            problem=spec, device="virtual", target=_TARGET, memory_limit=_MEMORY
        )
        judge = Judge(settings)
        try:
            calls = [source, *2 * [_with_other_warps(source)]]
            results = [judge.call_tool(ToolCall.of(CHECK, code=code), _LONGEST_S) for code in calls]
        finally:
            judge.close()
    seconds = [result.seconds for result in results]
    faults = [
        result.checked.fault.message
        for result in results
        if result.checked and result.checked.fault
    ]
    faults += [result.unfit for result in results if result.unfit]
    kernels = source.count("@triton.jit")
    return Checks(asked.name, asked.kind, kernels, *seconds, failed=faults[0] if faults else "")


def _with_other_warps(source: str) -> str:
    def other(match: re.Match[str]) -> str:
        warps = int(match[1])
        return f"num_warps={2 * warps if 2 * warps <= _MOST_WARPS else warps // 2}"

    return _WARPS.sub(other, source)


def page(rows: Iterable[Checks], commit: str, load: float) -> str:
    """The page: how many are within what was asked, then a row for each."""
    every = list(rows)
    made = [item for item in every if item.again_s and not item.failed]
    first, other = (
        sum(getattr(item, name) < _ASKED_S for item in made) for name in ("first_s", "other_s")
    )
    lines = [
        "# A writer's `check`, in seconds",
        "",
        f"`python -m benchmarks.checks KERNELBENCH` at {commit}, two cores, load {load:.1f} at the end: the built-in policy's first answer to each",
        "problem, on `virtual`. The judge is warm, the kernels are not: `first` and `other warps` compile all of them, `the same again` none.",
        f"Asked for: under {_ASKED_S:.0f} s. **{first} of {len(made)} are at first, {other} of {len(made)} with other warps.**",
        "",
        "| problem | class | kernels | first | other warps | the same again | not checked, or refused |",
        "|---|---|--:|--:|--:|--:|---|",
        *map(_row, every),
    ]
    return "\n".join(lines) + "\n"


def _row(item: Checks) -> str:
    times = " | ".join(f"{s:.1f}" if s else "" for s in (item.first_s, item.other_s, item.again_s))
    why = item.failed[:160].replace("|", "/").replace("\n", " ")
    return f"| {item.name} | {item.kind} | {item.kernels or ''} | {times} | {why} |"


if __name__ == "__main__":
    main()
