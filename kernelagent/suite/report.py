"""A suite's reports: `report.md` and `report.html` with their curves, `report.json` for papers."""

from __future__ import annotations

import json

from kernelagent.domain.serialization import to_data
from kernelagent.report.document import (
    Block,
    Bullets,
    Code,
    Document,
    Figure,
    Figures,
    Mono,
    Paragraph,
    Section,
    Table,
    listed,
    present,
)
from kernelagent.report.html import as_html
from kernelagent.report.markdown import as_markdown
from kernelagent.storage.output_file import write_atomically
from kernelagent.suite.curves import charts
from kernelagent.suite.log import SuiteFolder
from kernelagent.suite.statistics import Share, Speeds
from kernelagent.suite.summary import SuiteReport
from kernelagent.suite.text import TextTable, grids, notes, preamble

_TOLD = 100
"""Commands that a report still lists one by one."""


def write_reports(folder: SuiteFolder, report: SuiteReport) -> None:
    """The three of them into the suite's folder, each whole or not at all."""
    whole = document(report)
    reported = json.dumps(to_data(report), indent=1, ensure_ascii=False) + "\n"
    for name, text in (
        ("report.md", as_markdown(whole)),
        ("report.html", as_html(whole)),
        ("report.json", reported),
    ):
        write_atomically(folder.path / name, text, force=True)


def document(report: SuiteReport) -> Document:
    """The report as data."""
    *statistics, problems = grids(report)
    curves = charts(report.curves)
    sections = [
        *(Section(grid.title, (_table(grid),)) for grid in statistics),
        Section("Turn by turn", (*curves, Paragraph(_AS_JUDGED))) if curves else None,
        Section(problems.title, present(_table(problems), listed(notes(report.problems)))),
        Section("How to reproduce it", _reproduce(report)),
    ]
    return Document(
        title=f"Suite {report.suite}",
        lead=_lead(report),
        blocks=(Figures(_figures(report)), Bullets(tuple(preamble(report)))),
        sections=tuple(section for section in sections if section is not None),
    )


_AS_JUDGED = (
    "Shares of all problems after so many turns of each, with 95 % bootstrap intervals over problems. "
    "Every turn counts as it was judged then; the tables take the winners as they were judged a second "
    "time, with fresh inputs, so their last word may be lower."
)


def _lead(report: SuiteReport) -> str:
    correct = sum(row.best.correct for row in report.problems)
    ended = "" if report.finished else " The suite has not finished."
    return f"{correct} of {len(report.problems)} problems have a correct candidate.{ended}"


def _figures(report: SuiteReport) -> tuple[Figure, ...]:
    best = report.all.best_of_history
    result = [
        Figure(f"{best.correct.value:.0%}", "correct (fast_0), best of history", _in(best.correct))
    ]
    for speeds, fast, against in (
        (best.eager, "fast_1", "eager, measured"),
        (best.compile, "fast_1", "the best torch.compile mode, measured"),
        (best.estimate, "estimated_fast_1", "eager: an ESTIMATE, not measured"),
    ):
        result += _of_speeds(speeds, fast, against)
    return tuple(result)


def _of_speeds(speeds: Speeds | None, fast: str, against: str) -> list[Figure]:
    if speeds is None:
        return []
    share, overall = speeds.fast["1"], speeds.geometric_mean_of_all
    label = f"geometric mean over all problems, no candidate = 1, against {against}"
    doubt = f"95 % interval over problems {overall.low:.2f} to {overall.high:.2f}"
    return [
        Figure(f"{share.value:.0%}", f"{fast} against {against}", _in(share)),
        Figure(f"{overall.value:.2f}×", label, doubt),
    ]


def _in(share: Share) -> str:
    return f"95 % interval over problems {share.low:.0%} to {share.high:.0%}"


def _table(grid: TextTable) -> Table:
    return Table(grid.head, grid.rows, grid.numbers)


def _reproduce(report: SuiteReport) -> tuple[Block, ...]:
    again = [row.reproduce for row in report.problems if row.reproduce is not None]
    listing = "\n".join(f"$ {command}" for command in again[:_TOLD])
    left = len(again) - _TOLD
    return present(
        Paragraph("The tables again, from the logs alone; problems that have not ended go on:"),
        Code(f"$ kernelagent bench --resume {report.folder}", "console"),
        Paragraph("Each emitted module judged anew, with fresh inputs:") if again else None,
        Code(listing, "console") if again else None,
        Paragraph(("The other ", str(left), " stand in ", Mono("report.json"), "."))
        if left > 0
        else None,
    )
