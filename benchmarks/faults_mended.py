"""Do findings help? Writers who see only a faulty file and what the judge says of it, and mend it in one turn.

    python -m benchmarks.faults_mended desk FOLDER
    python -m benchmarks.faults_mended score FOLDER --who WHO [--rows FILE]
    python -m benchmarks.faults_mended table [--rows FILE] [--write FILE]

`desk` writes forty numbered folders with `candidate.py` and `feedback.txt`, nothing else. A writer puts `mended.py`
beside them; one that is missing is not mended. `score` judges those and adds a row each to the rows, `table` makes the
page from the rows. The faults and their classes: `benchmarks/fault_classes.py`.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import kept_rows
from benchmarks.fault_classes import CLASSES, ToMend, to_mend
from benchmarks.faults import KERNELS
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.queries.exclusive_gpu import Judges
from kernelagent.loop.run import HERE
from kernelagent.prompts.feedback import feedback_for
from kernelagent.tools.corpus.fixture import problem_path

RESULTS = Path(__file__).parent / "results"
ROWS = RESULTS / "faults_mended.jsonl"
CANDIDATE, FEEDBACK, MENDED = "candidate.py", "feedback.txt", "mended.py"
_Z = 1.959964
"""Of a normal distribution, 95 % of which lies within so many standard deviations."""


@dataclass(frozen=True)
class Row:
    """What became of one fault."""

    number: int
    who: str
    kernel: str
    mistake: str
    kind: str
    told: str
    """The code that the message began with."""
    mended: bool
    still: str | None = None
    """The code with which what was handed in is refused, `nothing` where nothing was; None where it is mended."""


def folder_of(desk: Path, item: ToMend) -> Path:
    """Where one fault lies."""
    return desk / f"{item.number:02}"


def lay_out(desk: Path, items: Sequence[ToMend], judges: Judges = HERE) -> list[int]:
    """Write the folders of `items`; returns the numbers of those that the judge accepts, which have no message."""
    accepted = []
    for item, evaluation in _judged([(item, item.fault.source) for item in items], judges):
        if evaluation.accepted:
            accepted.append(item.number)
            continue
        place = folder_of(desk, item)
        place.mkdir(parents=True, exist_ok=True)
        (place / CANDIDATE).write_text(item.fault.source, encoding="utf-8")
        (place / FEEDBACK).write_text(feedback_for(evaluation) + "\n", encoding="utf-8")
    return accepted


def scored(desk: Path, items: Sequence[ToMend], who: str, judges: Judges = HERE) -> list[Row]:
    """The judge's word on what lies beside each fault, in the order of the numbers."""
    handed_in = [
        (item, path.read_text(encoding="utf-8"))
        for item in items
        if (path := folder_of(desk, item) / MENDED).is_file()
    ]
    verdicts = {item.number: found for item, found in _judged(handed_in, judges)}
    rows = []
    for item in items:
        told = (folder_of(desk, item) / FEEDBACK).read_text(encoding="utf-8")
        found = verdicts.get(item.number)
        still = "nothing" if found is None else found.reason.code if found.reason else None
        rows.append(
            Row(
                number=item.number,
                who=who,
                kernel=item.fault.kernel,
                mistake=item.fault.mistake,
                kind=item.kind,
                told=_code_of(told),
                mended=still is None,
                still=still,
            )
        )
    return rows


def _code_of(feedback: str) -> str:
    match = re.match(r"[\w ]+ \((\w+)\):", feedback)
    if match is None:
        raise ValueError(f"no verdict at the beginning of {feedback[:60]!r}")
    return match[1]


def _judged(
    items: Iterable[tuple[ToMend, str]], judges: Judges
) -> Iterator[tuple[ToMend, Evaluation]]:
    """Each source's evaluation; one judge opens a kernel's problem once."""
    by_kernel: dict[str, list[tuple[ToMend, str]]] = {}
    for item, source in items:
        by_kernel.setdefault(item.fault.kernel, []).append((item, source))
    for kernel, mine in by_kernel.items():
        settings = JudgeSettings(ProblemSpec(path=str(problem_path(kernel))), device="virtual")
        with judges.open(settings, lambda *_: None) as judge:
            for item, source in mine:
                yield item, judge.evaluate(Candidate(source), lambda _: None)


def wilson(hits: int, tries: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson's score; `tries` must not be zero."""
    share, square = hits / tries, _Z * _Z
    middle = share + square / (2 * tries)
    half = _Z * math.sqrt(share * (1 - share) / tries + square / (4 * tries * tries))
    return (middle - half) / (1 + square / tries), (middle + half) / (1 + square / tries)


def table(rows: Sequence[Row]) -> str:
    """The page: by who wrote and by class, then what was not mended."""
    lines = [
        "# Planted faults, mended in one turn",
        "",
        "`python -m benchmarks.faults_mended table`, from the rows beside it. Each writer saw a faulty file and what "
        "the judge says of it: no module, no diff, no other turn. Mended: the judge accepts what was handed in "
        "(virtual device). Intervals are 95 % (Wilson).",
    ]
    for who in dict.fromkeys(row.who for row in rows):
        mine = [row for row in rows if row.who == who]
        lines += ["", f"## {who}", "", "| class | faults | mended | share |", "|---|--:|--:|--:|"]
        kinds = [kind for kind in CLASSES if any(row.kind == kind for row in mine)]
        lines += [_line(kind, [row for row in mine if row.kind == kind]) for kind in kinds]
        lines.append(_line("all", mine))
        missed = [row for row in mine if not row.mended]
        lines += [""] if missed else []
        lines += [
            f"- {row.number:02}, {row.kernel}, {row.mistake}: told `{row.told}`, then {_ended(row)}"
            for row in missed
        ]
    return "\n".join(lines)


def _line(name: str, rows: Sequence[Row]) -> str:
    hits = sum(row.mended for row in rows)
    low, high = wilson(hits, len(rows))
    return f"| {name} | {len(rows)} | {hits} | {hits / len(rows):.0%} ({low:.0%} to {high:.0%}) |"


def _ended(row: Row) -> str:
    return "nothing was handed in" if row.still == "nothing" else f"refused with `{row.still}`"


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, a JSON object a line."""
    return kept_rows.read(path, Row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("desk", "score", "table"))
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--who", help="who mended, for example a model's name and its effort")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--write", type=Path, default=RESULTS / "faults_mended.md")
    arguments = parser.parse_args()
    if arguments.what == "table":
        text = table(read_rows(arguments.rows))
        print(text)
        arguments.write.write_text(text + "\n", encoding="utf-8")
        return
    if arguments.folder is None or (arguments.what == "score" and not arguments.who):
        parser.error("desk needs a FOLDER, score a FOLDER and --who")
    halves = [[i for i in to_mend() if i.fault.kernel in KERNELS[half::2]] for half in (0, 1)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        if arguments.what == "desk":
            for accepted in pool.map(lambda items: lay_out(arguments.folder, items), halves):
                for number in accepted:
                    print(f"{number:02} is accepted: nothing to mend")
            return
        parts = list(pool.map(lambda i: scored(arguments.folder, i, arguments.who), halves))
    rows = sorted((row for part in parts for row in part), key=lambda row: row.number)
    kept_rows.append(arguments.rows, *rows)
    print(table(rows))


if __name__ == "__main__":
    main()
