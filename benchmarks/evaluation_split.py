"""Where the seconds of one evaluation go, step by step, on either device.

    python -m benchmarks.evaluation_split [--device cuda] [--problem FILE] [--candidate FILE] [--write]

On `cuda` the sum is held against the promise of four seconds for an honest kernel at ±2 %, triton's
compile taken out: it runs in the first evaluation, and the later ones find its cache empty, so what
loading and the first forward cost beside it is in the table and said to be.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.turn_latency import CASSETTE, ROOT, candidate_at
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge_client import JudgeProcess

RESULT = Path(__file__).parent / "results" / "evaluation_split.md"
PROMISED_S = 4.0
_MEANT = {
    "parse": "reading the text",
    "start": "forking and confining its process",
    "load": "importing the file",
    "construct": "constructing ModelNew, comparing its state",
    "verify": "every trial against the oracle, compiling included",
    "reverse knock-out": "the forward without torch",
    "audit": "the result without its kernels",
    "knock-out": "the result without its kernels",
    "account": "counted traffic, the estimate",
    "profile": "the traced forward, the machine code",
    "measure": "the judge's clock, both sides and torch.compile",
}


@dataclass(frozen=True)
class Split:
    """Seconds by step of one evaluation, in the order they ran."""

    steps: dict[str, float]
    timed_us: float | None
    interval: float | None
    """Half the width of the speedup's interval, as a share of it."""

    @property
    def total(self) -> float:
        return sum(self.steps.values())


def split_of(evaluation: Evaluation) -> Split:
    """From an evaluation's own stages; steps of one name are added up."""
    steps: dict[str, float] = {}
    for stage in evaluation.stages:
        steps[stage.name] = steps.get(stage.name, 0.0) + stage.seconds
    timing = evaluation.timing
    if timing is None:
        return Split(steps, None, None)
    ratio = timing.speedup_eager
    return Split(steps, timing.candidate_us, (ratio.high - ratio.low) / 2 / ratio.value)


def measured(device: str, problem: Path, source: str, repeat: int) -> tuple[str, list[Split]]:
    """The device's name and the splits of `repeat` evaluations after a first one."""
    settings = JudgeSettings(ProblemSpec(path=str(problem)), device=device)
    with JudgeProcess(settings) as judge:
        splits = []
        for number in range(repeat + 1):
            result = judge.evaluate(Candidate(f"{source}# {number}\n"), lambda _: None)
            if not result.accepted:
                raise SystemExit(f"the candidate is not accepted: {result.reason}")
            splits.append(split_of(result))
        return judge.device.name, splits[1:]


def page(name: str, device: str, what: str, splits: Sequence[Split]) -> str:
    """The table as Markdown."""
    total = median(split.total for split in splits)
    lines = [
        "# Where the seconds of one evaluation go",
        "",
        f"`python -m benchmarks.evaluation_split --device {device}`: {what}, {len(splits)} "
        f"evaluations after a first one, medians. {name}; {platform.machine()}, {os.cpu_count()} "
        f"cores, load {os.getloadavg()[0]:.1f}.",
        "",
        "| step | seconds | share | what it is |",
        "| --- | ---: | ---: | --- |",
    ]
    for step in splits[0].steps:
        seconds = median(split.steps.get(step, 0.0) for split in splits)
        lines.append(f"| {step} | {seconds:.2f} | {seconds / total:.0%} | {_MEANT.get(step, '')} |")
    lines += [f"| **all** | **{total:.2f}** | 100% | |", "", _verdict(splits, total)]
    return "\n".join(lines)


def _verdict(splits: Sequence[Split], total: float) -> str:
    timed = [split.timed_us for split in splits if split.timed_us is not None]
    if not timed:
        return "Nothing was timed on this device, so there is nothing to hold against the promise."
    widths = [split.interval for split in splits if split.interval is not None]
    kept = "kept" if total < PROMISED_S else "NOT kept"
    return (
        f"A call takes {median(timed):.1f} us; intervals of ±{max(widths):.1%} at worst. Promised: "
        f"under {PROMISED_S:g} s without triton's compile; {kept} with it."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation_split")
    parser.add_argument("--device", default="virtual")
    parser.add_argument("--problem", type=Path, default=ROOT / "examples" / "rms_norm_residual.py")
    parser.add_argument("--candidate", type=Path, default=CASSETTE)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"to {RESULT.name}, too")
    options = parser.parse_args(arguments)
    source = candidate_at(options.candidate)
    name, splits = measured(options.device, options.problem, source, options.repeat)
    text = page(name, options.device, f"{options.problem.name}, {options.candidate.name}", splits)
    print(text)
    if options.write:
        RESULT.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
