"""Honest kernels of real projects' idioms (`tools/corpus/idioms`), each judged again and again: is any refused?

`python -m benchmarks.idioms --times 20` judges those without a row and writes `results/idioms.md` as it goes; `--only NAME...`
judges those again, and their new rows take the place of the old.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import kept_rows
from benchmarks.commit import head_of
from kernelagent.domain.errors import KernelAgentError
from kernelagent.tools.corpus.check import Checked, check
from kernelagent.tools.corpus.fixture import Fixture
from kernelagent.tools.corpus.honest.idioms import IDIOMS

_RESULT = Path(__file__).parent / "results" / "idioms.md"
_KEPT = _RESULT.with_suffix(".jsonl")


@dataclass(frozen=True)
class Row:
    """One kernel's judgings."""

    kernel: str
    times: int
    accepted: int
    disclosures: Sequence[str]
    refused: Sequence[str]
    """What the others ended with, each once."""
    at: str
    """The commit."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of those wanted")
    arguments = parser.parse_args()
    rows = {row.kernel: row for row in kept_rows.read(_KEPT, Row)}
    for fixture in IDIOMS:
        named = any(part in fixture.name for part in arguments.only)
        if named if arguments.only else fixture.name not in rows:
            rows[fixture.name] = _judged(fixture, arguments.times)
            print(rows[fixture.name], flush=True)
            _write(rows)
    _write(rows)


def _judged(fixture: Fixture, times: int) -> Row:
    at = head_of(Path(__file__).parent)
    try:
        items = list(check([fixture], device="virtual", times=times))
    except KernelAgentError as error:
        # Its first line: what follows is a traceback with the folders of this machine.
        return Row(fixture.name, 1, 0, [], [f"no judging: {str(error).splitlines()[0]}"], at)
    good = [item for item in items if item.code is None]
    told = sorted({disclosure for item in good for disclosure in item.disclosures})
    return Row(fixture.name, len(items), len(good), told, sorted(set(_refusals(items))), at)


def _refusals(items: Sequence[Checked]) -> list[str]:
    return [f"{item.code}: {item.message[:160]}" for item in items if item.code is not None]


def _write(rows: dict[str, Row]) -> None:
    known = [rows[fixture.name] for fixture in IDIOMS if fixture.name in rows]
    _KEPT.write_text(kept_rows.lines_of(known), encoding="utf-8")
    _RESULT.write_text(_page(known), encoding="utf-8")


def _page(rows: Sequence[Row]) -> str:
    judged, accepted = sum(row.times for row in rows), sum(row.accepted for row in rows)
    lines = [
        "# Honest kernels of real projects' idioms",
        "",
        f"`python -m benchmarks.idioms --times 20`, on `virtual`: {len(rows)} of {len(IDIOMS)} kernels judged, "
        f"{accepted} of {judged} judgings accepted. Rows are of several commits (`at`).",
        "",
        "| kernel | accepted | of | disclosures | refused with | at |",
        "|---|--:|--:|---|---|---|",
    ]
    for row in rows:
        bad = "; ".join(row.refused).replace("|", "/")
        told = ", ".join(row.disclosures)
        lines.append(f"| {row.kernel} | {row.accepted} | {row.times} | {told} | {bad} | {row.at} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
