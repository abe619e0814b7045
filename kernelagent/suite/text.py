"""A suite's result in words and tables, for the terminal and for its reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.suite.pairs import SuiteDiff
from kernelagent.suite.results import ProblemResult, Score
from kernelagent.suite.statistics import Group, Share, Speeds, Taken
from kernelagent.suite.summary import SuiteReport

if TYPE_CHECKING:
    from rich.table import Table

_AGAINST = {
    "eager": "fast_{p} vs eager (measured)",
    "compile": "fast_{p} vs best torch.compile mode (measured)",
    "estimate": "estimated_fast_{p} vs eager (ESTIMATE, not measured)",
}
_MEANS = {
    "eager": "speedup vs eager",
    "compile": "speedup vs best torch.compile mode",
    "estimate": "ESTIMATED ratio to eager",
}


@dataclass(frozen=True)
class TextTable:
    """A table, wherever it is shown."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    """Columns that hold nothing but numbers."""


def grids(report: SuiteReport) -> list[TextTable]:
    """The statistics, with and without degenerate problems where there are any; then each problem."""
    result = [_statistics(f"All {report.all.problems} problems", report.all)]
    if report.degenerate:
        sound = report.without_degenerate
        names = ", ".join(report.degenerate)
        title = f"The {sound.problems} problems without the degenerate ones ({names})"
        result.append(_statistics(title, sound))
    return [*result, problems_grid(report.problems)]


def _statistics(title: str, group: Group) -> TextTable:
    taken = (group.last_turn, group.best_of_history)
    rows = [("correct (fast_0)", *(share(t.correct) for t in taken))]
    for name in ("eager", "compile", "estimate"):
        rows += _speed_rows(name, [_speeds(t, name) for t in taken])
    return TextTable(title, ("", "last turn", "best of history"), tuple(rows))


def _speeds(taken: Taken, name: str) -> Speeds | None:
    return {"eager": taken.eager, "compile": taken.compile, "estimate": taken.estimate}[name]


def _speed_rows(name: str, both: Sequence[Speeds | None]) -> Iterable[tuple[str, ...]]:
    known = next((speeds for speeds in both if speeds is not None), None)
    if known is None:
        if name != "estimate":
            yield _AGAINST[name].format(p="p"), *["not timed"] * len(both)
        return
    for p in known.fast:
        if p != "0":
            yield _AGAINST[name].format(p=p), *(share(s.fast[p]) if s else "–" for s in both)
    of_correct = f"geometric mean over correct problems, losses included: {_MEANS[name]}"
    yield of_correct, *(ratio(s.geometric_mean_of_correct) if s else "–" for s in both)
    of_all = f"geometric mean over all problems, no candidate = 1: {_MEANS[name]}"
    yield of_all, *(ratio(s.geometric_mean_of_all) if s else "–" for s in both)


def problems_grid(rows: Sequence[ProblemResult]) -> TextTable:
    """One row a problem; tokens only where some were spent."""
    spent = any(row.tokens for row in rows)
    head = ("problem", "last turn", "best of history", "turns", "wall s", "device s")
    body = tuple(
        (
            row.key,
            score(row.last),
            score(row.best),
            str(row.turns),
            f"{row.wall_s:.1f}",
            f"{row.device_s:.1f}",
            *([str(row.tokens)] if spent else []),
        )
        for row in rows
    )
    tokens = ("tokens",) if spent else ()
    return TextTable("Problems", (*head, *tokens), body, frozenset({3, 4, 5, 6}))


def notes(rows: Sequence[ProblemResult]) -> list[str]:
    """What must be said of single problems: that one is degenerate, or did not end well."""
    reported = [(row.key, "degenerate: a constant is accepted") for row in rows if row.degenerate]
    reported += [
        (row.key, f"{row.status}: {row.why.splitlines()[0] if row.why else 'no reason was logged'}")
        for row in rows
        if row.status != "ended"
    ]
    return [f"{key}: {what}" for key, what in reported]


def score(result: Score) -> str:
    """One candidate in a cell, an estimate called so."""
    if not result.correct:
        return result.code or "not correct"
    if result.eager is not None:
        compiled = "" if result.compiled is None else f", {result.compiled:.2f}× torch.compile"
        return f"{result.eager:.2f}× eager{compiled}"
    if result.estimate is not None:
        return f"estimate {result.estimate:.2f}"
    return "correct, not timed"


def share(interval: Share) -> str:
    """A share of problems with its interval."""
    return f"{interval.value:.1%} [{interval.low:.1%}, {interval.high:.1%}]"


def ratio(interval: Share | None) -> str:
    """A mean ratio with its interval."""
    return (
        "–"
        if interval is None
        else f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
    )


def preamble(report: SuiteReport) -> list[str]:
    """What a reader must know before the numbers."""
    spend, device = report.spend, report.device
    where = "no device yet" if device is None else f"{device.kind}: {device.name}"
    lines = [
        f"{', '.join(report.model)}, strategy {report.strategy or 'default'}, on {where}",
        f"spent: {spend.turns} turns, {spend.tokens} tokens, {spend.dollars:.2f} dollars"
        + (f" ({spend.unpriced_tokens} tokens unpriced)" if spend.unpriced_tokens else "")
        + f", {spend.run_wall_s:.0f} s of runs, {spend.device_s:.0f} s of evaluation",
        "Brackets: 95 % bootstrap intervals over problems. Best of history is judged a second time "
        "with fresh inputs.",
    ]
    lines += _cluster(report)
    if device is not None and device.kind == "virtual":
        lines.append("Nothing was timed on a GPU: no fast_p but fast_0; estimates prove no speed.")
    if report.too_dear is not None:
        lines.append(f"Not every problem was begun: {report.too_dear}")
    if not report.finished:
        lines.append("The suite has not finished: problems without a run count as not correct.")
    if report.failed:
        lines.append(f"Could not be run, counted as not correct: {', '.join(report.failed)}")
    if report.left_out:
        lines.append(
            f"{len(report.left_out)} Python files in the folders are no problem (no `class Model` "
            f"with `get_inputs`): {', '.join(report.left_out[:8])}"
        )
    return lines


def _cluster(report: SuiteReport) -> Iterable[str]:
    """Where it was evaluated, when that was not one machine, and what that does to comparisons."""
    joined = report.cluster
    if joined is not None:
        yield (
            f"evaluated through Ray by {joined.devices} devices of one make and the same versions: "
            f"{_make(joined.device)}"
        )
        for node in joined.left_out:
            yield f"left out, for its timings would not compare: {node}"
        yield from report.cluster_changes
    if report.other_devices and report.device is not None:
        others = "; ".join(map(_make, report.other_devices))
        yield (
            f"MIXED: some problems were judged on {others}, the others on {_make(report.device)}; "
            f"no statistic below compares like with like"
        )


def _make(device: DeviceFacts) -> str:
    driver = f", driver {device.driver}" if device.driver else ""
    return f"{device.name}, torch {device.torch}, triton {device.triton}{driver}"


def diff_grids(diff: SuiteDiff) -> list[TextTable]:
    """A pair of suites: the totals, then each problem."""
    totals: list[tuple[str, ...]] = [
        ("pairs", str(len(diff.pairs))),
        ("correct, change (mean over pairs)", share(diff.correct_change)),
        ("correct only after", ", ".join(diff.gained) or "none"),
        ("correct only before", ", ".join(diff.lost) or "none"),
        ("geometric mean of after / before, best of history", ratio(diff.geometric_mean_change)),
        ("only in one suite", ", ".join((*diff.only_before, *diff.only_after)) or "none"),
    ]
    if any(pair.of == "estimate" for pair in diff.pairs):
        totals.append(("note", "ratios of ESTIMATES, not of measurements"))
    rows = [
        (
            pair.key,
            score(pair.before),
            score(pair.after),
            "–" if pair.change is None else f"{pair.change:.2f}",
        )
        for pair in diff.pairs
    ]
    return [
        TextTable(f"{diff.before} → {diff.after}", ("", ""), tuple(totals)),
        TextTable("Problems", ("problem", "before", "after", "after / before"), tuple(rows)),
    ]


def as_table(grid: TextTable) -> Table:
    """For the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(grid.title),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for place, name in enumerate(grid.head):
        number = place in grid.numbers
        table.add_column(
            Text(name), overflow="fold", no_wrap=number, justify="right" if number else "left"
        )
    for row in grid.rows:
        table.add_row(*map(Text, row))
    return table
