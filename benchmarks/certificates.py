"""Certificates put to the test on a GPU: do they agree, is nothing faster than itself, is 3 % seen?

    python -m benchmarks.certificates [--device cuda] [--repeat 10] [--itself 50] [--write]

The pair differs by a known amount of work: the reference does what the candidate does and, besides,
three hundredths of it again for nothing. One pair waits for launches, the other for memory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import Interval
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.judge import Judge

RESULT = Path(__file__).parent / "results" / "certificates.md"
EXPECTED = 1.03
WITHIN_S = 30.0
"""Time in which a candidate that is 3 % faster has to be certified."""
_MEMORY_BOUND = """
import torch
from torch import nn

class {name}(nn.Module):
    def forward(self, x):
        y = x
        for _ in range(10):
            y = torch.relu(y + 1.0)
        {waste}
        return y

def get_inputs():
    return [torch.randn(2048, 8192)]
"""
_LAUNCH_BOUND = _MEMORY_BOUND.replace("range(10)", "range(33)").replace("2048, 8192", "64, 256")
PAIRS = {
    "waits for memory": (_MEMORY_BOUND, "torch.relu(x[:614] + 1.0)"),
    "waits for launches": (_LAUNCH_BOUND, "torch.relu(x + 1.0)"),
}
"""A problem and what its reference does for nothing."""


@dataclass(frozen=True)
class Certified:
    """One certificate and the seconds it took."""

    interval: Interval
    seconds: float
    call_us: float


Certify = Callable[[], Certified]


@dataclass(frozen=True)
class Findings:
    """What many certificates of one pair say together."""

    pair: str
    repeated: tuple[Certified, ...]
    itself: tuple[Certified, ...]

    @property
    def agreeing(self) -> int:
        """How many of the certificates' intervals hold the middle of all their values."""
        return agreeing([item.interval for item in self.repeated])

    @property
    def false_alarms(self) -> int:
        """How often the reference was certified faster than itself."""
        return sum(item.interval.low > 1.0 for item in self.itself)

    @property
    def seen(self) -> int:
        """How often the 3 % were certified in time."""
        return sum(c.interval.low > 1.0 and c.seconds <= WITHIN_S for c in self.repeated)


def agreeing(intervals: Sequence[Interval]) -> int:
    """How many intervals hold the median of all the values."""
    ordered = sorted(interval.value for interval in intervals)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return sum(interval.low <= middle <= interval.high for interval in intervals)


def examined(pair: str, faster: Certify, itself: Certify, *, repeat: int, tries: int) -> Findings:
    """Certify the faster candidate `repeat` times and the reference against itself `tries` times."""
    return Findings(
        pair,
        tuple(faster() for _ in range(repeat)),
        tuple(itself() for _ in range(tries)),
    )


def on_device(pair: str, device: str, *, repeat: int, tries: int) -> Findings:
    """The same with a judge on that device."""
    text, waste = PAIRS[pair]
    reference = text.format(name="Model", waste=waste)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pair.py")
        path.write_text(reference, encoding="utf-8")
        judge = Judge(JudgeSettings(ProblemSpec(path=str(path)), device=device, policy="any"))
        try:
            return examined(
                pair,
                lambda: _certified(judge, text.format(name="ModelNew", waste="")),
                lambda: _certified(judge, text.format(name="ModelNew", waste=waste)),
                repeat=repeat,
                tries=tries,
            )
        finally:
            judge.close()


def _certified(judge: Judge, source: str) -> Certified:
    began = time.monotonic()
    result = judge.evaluate(source, "certificate", lambda _: None)
    if result.timing is None:
        raise SystemExit(f"nothing was timed: {result.reason or 'this device does not time'}")
    seconds = sum(stage.seconds for stage in result.stages if stage.name == "measure")
    return Certified(
        result.timing.speedup_eager,
        seconds or time.monotonic() - began,
        result.timing.candidate_us,
    )


def page(findings: Sequence[Findings], where: str) -> str:
    """The findings as Markdown."""
    lines = [
        "# Certificates put to the test",
        "",
        f"{where}. Each pair differs by {EXPECTED - 1:.0%} of known work. Agreeing: intervals that "
        f"hold the middle of all values; certified: the lower end above 1 within {WITHIN_S:g} s.",
        "",
        "| pair | call us | values | agreeing | 3 % certified | seconds | faster than itself |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    return "\n".join([*lines, *map(_row, findings)])


def _row(found: Findings) -> str:
    values = [item.interval.value for item in found.repeated]
    cells = (
        found.pair,
        f"{max(item.call_us for item in found.repeated):.1f}",
        f"{min(values):.3f} to {max(values):.3f}",
        f"{found.agreeing} of {len(values)}",
        f"{found.seen} of {len(values)}",
        f"{max(item.seconds for item in found.repeated):.1f} at most",
        f"{found.false_alarms} of {len(found.itself)}",
    )
    return "| " + " | ".join(cells) + " |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.certificates")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--itself", type=int, default=50)
    parser.add_argument("--write", action="store_true", help=f"to {RESULT.name}, too")
    options = parser.parse_args(arguments)
    findings = [
        on_device(pair, options.device, repeat=options.repeat, tries=options.itself)
        for pair in PAIRS
    ]
    text = page(findings, f"Device {options.device}")
    print(text)
    if options.write:
        RESULT.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
