"""What a suite costs beyond the runs it consists of.

`python -m benchmarks.suite_overhead [--problems N] [--real PATH... | --made N] [--turns N] [--write FILE]`

Recorded: the same N recorded runs (three to seventeen turns each, no pauses) one after the other,
alone and as a suite of one job, in seconds of CPU (other work on the machine does not count); the
difference is the suite's. Real: a suite of the built-in policy over PATH, or over N small problems
made on the spot; what its log says the suite took, against what its runs' logs say they took.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from kernelagent.domain.configuration.config import RunConfig, resolve
from kernelagent.domain.serialization import from_data
from kernelagent.suite.log import SuiteFolder, started
from kernelagent.suite.problems import find_problems
from kernelagent.suite.run_suite import begin as begin_real
from kernelagent.suite.run_suite import conduct
from kernelagent.suite.summary import SuiteReport, report_of
from tests.suite.recorded_suite import Silent, begin, recorded


def alone_s(folder: SuiteFolder) -> float:
    """The suite's runs one after the other, without the suite."""
    first, run = started(folder), recorded(0.0)
    config = from_data(first.config, RunConfig)
    began = time.process_time()
    for problem in first.problems:
        mine = replace(config, runs=str(folder.runs_of(problem.key)))
        run(problem, mine, None, (), lambda: False)
    return time.process_time() - began


def as_suite_s(folder: SuiteFolder) -> tuple[float, float]:
    """CPU time of the suite, and of the report at its end."""
    began = time.process_time()
    assert conduct(folder, Silent(), run_one=recorded(0.0))
    ran = time.process_time()
    report_of(folder)
    return ran - began, time.process_time() - ran


def make_problems(folder: Path, count: int) -> None:
    """So many different small problems, in KernelBench's form."""
    activations = (
        "relu",
        "gelu",
        "silu",
        "tanh",
        "sigmoid",
        "softplus",
        "elu",
        "mish",
        "hardswish",
    )
    for number in range(count):
        activation = activations[number % len(activations)]
        rest = ("y * self.w", "y + self.w", "y.softmax(-1)", "y.sum(-1)", "y * y.mean(-1, True)")
        form = rest[number // len(activations) % len(rest)]
        width = 96 + 16 * (number // (len(activations) * len(rest)))
        (folder / f"{number + 1}_{activation}.py").write_text(
            _PROBLEM.format(activation=activation, form=form, width=width), encoding="utf-8"
        )


_PROBLEM = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.w = nn.Parameter(torch.randn(width))

    def forward(self, x):
        y = F.{activation}(x)
        return {form}


def get_inputs():
    return [torch.randn(32, {width})]


def get_init_inputs():
    return [{width}]
"""


def recorded_rows(problems: int, repeats: int = 2) -> list[str]:
    alone, suite, report = [], [], []
    here = Path.cwd()
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            alone.append(alone_s(begin(Path(scratch) / "alone", problems, 1)))
            ran, reported = as_suite_s(begin(Path(scratch) / "suite", problems, 1))
            suite.append(ran)
            report.append(reported)
            os.chdir(here)
    extra = min(suite) - min(alone)
    return [
        f"{problems} recorded runs, the least of {repeats} repeats:",
        "",
        "| | s of CPU |",
        "|---|---|",
        f"| one after the other, without a suite | {min(alone):.2f} |",
        f"| as a suite, one job | {min(suite):.2f} |",
        f"| the suite's own | {extra:.3f} ({1000 * extra / problems:.1f} ms a problem; "
        f"{extra / min(alone):.1%} of runs that evaluate nothing) |",
        f"| the report at its end, 2000 resamples | {min(report):.2f} |",
    ]


def real(paths: list[str], turns: int) -> SuiteReport:
    with tempfile.TemporaryDirectory() as scratch:
        config = resolve({"turns": turns, "device": "virtual"})
        folder = begin_real(Path(scratch), find_problems(paths), config, 1)
        conduct(folder, Silent())
        return report_of(folder)


def real_rows(report: SuiteReport, turns: int) -> list[str]:
    spend = report.spend
    extra = spend.suite_wall_s - spend.run_wall_s
    n = len(report.problems)
    return [
        f"The built-in policy on `virtual`, {n} problems, {turns} turns each, one job:",
        "",
        "| | s |",
        "|---|---|",
        f"| the suite on the wall | {spend.suite_wall_s:.1f} |",
        f"| its runs, from first to last event | {spend.run_wall_s:.1f} |",
        f"| of that, evaluations (the second judging of winners included) | {spend.device_s:.1f} |",
        f"| the suite's own | {extra:.2f} ({extra / spend.run_wall_s:.2%} of its runs, "
        f"{extra / spend.device_s:.2%} of its evaluations) |",
        "",
        "What the runs take beyond their evaluations is each run's own: the judge's process imports "
        "torch and reads the problem, and the built-in policy traces the module in another process.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--real", nargs="*", default=[])
    parser.add_argument("--made", type=int, default=0)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    lines = ["# What a suite costs", "", "Made by `python -m benchmarks.suite_overhead`.", ""]
    lines += recorded_rows(given.problems)
    if given.made:
        with tempfile.TemporaryDirectory() as scratch:
            make_problems(Path(scratch), given.made)
            lines += ["", *real_rows(real([scratch], given.turns), given.turns)]
    if given.real:
        lines += ["", *real_rows(real(given.real, given.turns), given.turns)]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.write is not None:
        given.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
