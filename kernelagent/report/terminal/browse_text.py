"""Runs for a person: the tables, trees and diffs of `kernelagent runs`, `show` and `diff`.

Text of models and candidates is printed as it is, without markup and without control characters.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelagent.domain.configuration.budget import Spent, spent_text
from kernelagent.domain.evaluation import KernelFacts
from kernelagent.domain.serialization import from_data
from kernelagent.prompts.wording import number
from kernelagent.report.terminal.browse import DiffView, RunRow, RunView, TurnRow, TurnView
from kernelagent.storage.git_history import harmless

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree

_MARKS = {
    "accepted": ("✓", "green"),
    "rejected": ("✗", "red"),
    "error": ("!", "yellow"),
    "void": ("∅", "dim"),
    "pending": ("…", "cyan"),
}
_WIDTH_OF_A_PIPE = 160


def data_console() -> Console:
    """Stdout for data: wide enough for the tables when it is no terminal."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(width=_WIDTH_OF_A_PIPE, highlight=False)


def runs_table(rows: Sequence[RunRow]) -> Table:
    """One line a run, oldest first."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("run", "problem", "strategy", "model", "turns", "best", "outcome", "size"):
        right = heading in {"turns", "size"}
        # An id is there to be copied: it is never broken.
        whole = heading == "run"
        table.add_column(
            heading, justify="right" if right else "left", overflow="fold", no_wrap=whole
        )
    for row in rows:
        cells = (
            row.run,
            row.problem,
            row.strategy,
            ", ".join(row.models),
            str(row.turns),
            best_text(row),
            row.outcome,
            size_text(row.size_bytes),
        )
        table.add_row(*(_plain(cell) for cell in cells))
    return table


def best_text(row: RunRow) -> str:
    """The run's number with its label, and whether it was confirmed."""
    if row.best is None:
        return row.why if row.outcome == "unreadable" else "none accepted"
    doubt = "" if row.best.certified else ", not confirmed"
    return f"turn {row.best.turn}: {row.best.text}{doubt}"


def size_text(size_bytes: int) -> str:
    """Bytes in the largest unit that leaves a number of at least one, for example `1.5 MiB`."""
    size, units = float(size_bytes), ["B", "KiB", "MiB", "GiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"


def print_run(console: Console, view: RunView) -> None:
    """Facts, tree of turns, spend and remarks of one run."""
    row = view.row
    facts = [
        f"run {row.run}",
        f"problem   {row.problem}",
        f"strategy  {row.strategy}, {', '.join(row.models)}",
        f"began     {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(row.started_s))}",
        f"outcome   {row.outcome}: {row.why}",
        f"best      {best_text(row)}",
    ]
    if view.device is not None:
        d = view.device
        facts.append(f"device    {d.kind} ({d.name}, {d.target}), sandbox: {view.sandbox}")
    if view.module is not None:
        facts.append(f"module    {view.module}")
    amounts = dict(view.spent)
    elapsed_s = amounts.pop("wall_s")
    facts.append(f"spent     {spent_text(from_data(amounts, Spent), elapsed_s)}")
    _say(console, "\n".join(facts))
    if view.turns:
        console.print(turn_tree(view.turns))
    for remark in view.remarks:
        _say(console, f"note: {remark}")
    if view.torn:
        _say(console, "note: the log's last line is not whole, and was left out")


def turn_tree(turns: Sequence[TurnRow]) -> Tree:
    """The turns below what they refine; a chain without branches stays in one column."""
    from rich.tree import Tree

    known = {turn.turn for turn in turns}
    children: dict[int | None, list[TurnRow]] = {}
    for turn in turns:
        parent = turn.parent if turn.parent in known else None
        children.setdefault(parent, []).append(turn)
    tree = Tree("turns")
    roots = children.get(None, [])
    waiting = [(tree, turn, len(roots) == 1) for turn in reversed(roots)]
    while waiting:
        branch, turn, alone = waiting.pop()
        node = branch.add(_turn_line(turn))
        below = children.get(turn.turn, [])
        single = len(below) == 1
        place = branch if alone and single else node
        waiting += [(place, child, single) for child in reversed(below)]
    return tree


def _turn_line(turn: TurnRow) -> Text:
    from rich.text import Text

    mark, style = _MARKS[turn.verdict]
    line = Text(f"{turn.turn} ")
    line.append(mark, style)
    origin = "" if turn.parent is None else f" from {turn.parent}"
    line.append(f" {turn.kind}{origin}, {harmless(turn.model)}: {harmless(turn.text)}")
    for word, holds in (("best", turn.best), ("emitted", turn.emitted)):
        if holds:
            line.append(f" [{word}]", "bold")
    return line


def print_turn(console: Console, view: TurnView) -> None:
    """Request, verdict, evidence, feedback and code of one turn."""
    console.print(_turn_line(view.row), soft_wrap=True)
    window = ", ".join(str(turn) for turn in view.request.window) or "none"
    price = "price unknown" if view.dollars is None else f"{view.dollars:.4f} dollars"
    facts = [
        f"run {view.run}, trajectory {view.request.trajectory}, turns shown to the model: {window}",
        f"{view.tokens_in} tokens in, {view.tokens_out} out, {price}; reward {view.reward:.3g}",
    ]
    if view.hypothesis:
        facts.append(f"hypothesis: {view.hypothesis}")
    result = view.evaluation
    if result is not None:
        if result.reason is not None:
            facts.append(f"{result.reason.code}: {result.reason.message}")
        else:
            facts.append(f"number: {number(result)}")
        facts += [f"disclosed: {item.code}: {item.message}" for item in result.disclosures]
    _say(console, "\n".join(facts))
    if result is not None and result.kernels:
        console.print(kernels_table(result.kernels))
    if view.feedback:
        _say(console, f"\nfeedback to the model:\n{view.feedback}")
    if view.code is not None:
        _say(console, f"\ncandidate {view.candidate}:\n{view.code.rstrip()}")


def kernels_table(kernels: Sequence[KernelFacts]) -> Table:
    """What is known of each kernel; a cell is empty where the tier in use cannot know."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    headings = ("kernel", "launches", "share", "registers", "spills", "shared", "occupancy")
    for heading in (*headings, "bound", "known by"):
        table.add_column(heading, overflow="fold")
    for k in kernels:
        counts = (k.registers, k.spills, k.shared_bytes)
        cells = (
            k.name,
            str(k.launches),
            _percent(k.share_of_device_time),
            *("" if count is None else str(count) for count in counts),
            _percent(k.occupancy),
            k.bound or "",
            k.tier,
        )
        table.add_row(*(_plain(cell) for cell in cells))
    return table


def print_diff(console: Console, view: DiffView) -> None:
    """Verdict and number of both turns, then the unified diff."""
    for row in (view.before, view.after):
        console.print(_turn_line(row), soft_wrap=True)
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in view.diff.splitlines():
        text = _plain(line)
        text.stylize(styles.get(line[:1], ""))
        console.print(text, soft_wrap=True)
    if not view.diff:
        _say(console, "both turns wrote the same text")


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _plain(text: str) -> Text:
    from rich.text import Text

    return Text(harmless(text))


def _say(console: Console, text: str) -> None:
    console.print(_plain(text), soft_wrap=True)
