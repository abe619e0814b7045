"""The recorded turns of a strong writer on today's judge: which are lost to the device, what is said wrongly?

    python -m benchmarks.recorded_turns [NAME ...] [--lost] [--judging-seconds 120] [--rows FILE]

`tests/cassettes/writer` has the replies with the verdicts of then, and a module of the same computation
and sizes for each. Rows are kept in `--rows` as they come; what stands there is not judged again.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import kept_rows
from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.queries.exclusive_gpu import Judges
from kernelagent.loop.run import HERE
from kernelagent.prompts.feedback import feedback_for
from kernelagent.storage.cassette import recording

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "cassettes" / "writer"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.jsonl")))
LOST = frozenset({"timeout", "unverifiable", "out_of_memory"})
"""Codes of a candidate that the device could not execute; none of these writes an endless loop."""


@dataclass(frozen=True)
class Misleading:
    """Words that a writer was once told, and that led nowhere."""

    what: str
    words: str
    """A pattern of the findings."""


MISLEADING = (
    Misleading(
        "one tf32 product advised where float32 is asked for", r'input_precision="tf32"(?!x3)'
    ),
    Misleading("a flag that no writer can pass", r"--(inputs|device|memory-limit)\b"),
    Misleading("larger blocks for the interpreter's sake", r"use larger blocks"),
    Misleading("tf32 called an offset", r"pattern: offset"),
    Misleading("tf32 called bfloat16", r"as from bfloat16 inside"),
    Misleading("a Python number where Triton has a tensor", r"'int' object has no attribute"),
    Misleading("the least without the convolution", r"Headroom: 34\.1 µs"),
    Misleading("reads again, no argument named", r"it reads [\d.]+× the fewest bytes;"),
)


@dataclass(frozen=True)
class Row:
    """One recorded turn, judged today."""

    name: str
    turn: int
    then: str
    today: str
    seconds: float
    findings: str

    @property
    def misled(self) -> tuple[str, ...]:
        return tuple(m.what for m in MISLEADING if re.search(m.words, self.findings))


def judged(
    name: str,
    judging_seconds: float,
    done: Sequence[int] = (),
    judges: Judges = HERE,
    *,
    lost: bool = False,
) -> Iterator[Row]:
    """The turns of one conversation that are not done, one after the other; `lost`: those lost then."""
    replies = [r for r in recording(str(FOLDER / f"{name}.jsonl")) if r.turn not in done]
    replies = [r for r in replies if r.verdict in LOST or not lost]
    if not replies:
        return
    spec = ProblemSpec(path=str(FOLDER / f"{name}.py"))
    settings = JudgeSettings(spec, device="virtual", judging_seconds=judging_seconds)
    with judges.open(settings, lambda *_: None) as judge:
        for reply in replies:
            candidate = parse_reply(reply.text)
            assert isinstance(candidate, Candidate)
            began = time.monotonic()
            result = judge.evaluate(candidate, lambda _: None)
            seconds = round(time.monotonic() - began, 1)
            yield Row(
                name,
                reply.turn or 0,
                reply.verdict or "",
                code_of(result),
                seconds,
                feedback_for(result),
            )


def code_of(result: Evaluation) -> str:
    """`accepted`, or the reason's code."""
    return result.reason.code if result.reason is not None else result.verdict


def table(rows: Sequence[Row]) -> str:
    """Each turn then and now, and the two counts that matter."""
    lines = [
        "| problem | turn | then | today | s | the first finding today |",
        "|---|--:|---|---|--:|---|",
    ]
    for row in rows:
        said = row.findings.splitlines()[1 if row.today == "accepted" else 0]
        lines.append(
            f"| {row.name} | {row.turn} | {row.then} | {row.today} | {row.seconds:.0f} | "
            f"{said[:240].replace('|', '/')} |"
        )
    then, today = (sum(code in LOST for code in codes) for codes in _codes(rows))
    lines += ["", f"Lost to the device's limits: {then} of {len(rows)} then, {today} today."]
    misled = [(row, what) for row in rows for what in row.misled]
    lines.append(f"Misleading findings of then that are said today: {len(misled)}.")
    lines += [f"- {row.name}, turn {row.turn}: {what}" for row, what in misled]
    return "\n".join(lines)


def _codes(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    return [row.then for row in rows], [row.today for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--judging-seconds", type=float, default=120.0)
    parser.add_argument("--lost", action="store_true", help="only turns that were lost then")
    parser.add_argument("--rows", type=Path, help="JSON lines; kept as they come")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    rows = kept_rows.read(arguments.rows, Row)
    unknown = sorted(set(arguments.names) - set(NAMES))
    if unknown:
        parser.error(f"there is no recording {unknown[0]}; there are {', '.join(NAMES)}")
    for name in arguments.names or NAMES:
        done = [row.turn for row in rows if row.name == name]
        for row in judged(name, arguments.judging_seconds, done, lost=arguments.lost):
            rows.append(row)
            print(f"{row.name} {row.turn}: {row.then} -> {row.today}, {row.seconds} s", flush=True)
            if arguments.rows is not None:
                kept_rows.append(arguments.rows, row)
    text = table(sorted(rows, key=lambda row: (row.name, row.turn)))
    print(text, f"\nLoad of the last minutes: {os.getloadavg()}.")
    if arguments.write is not None:
        arguments.write.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
