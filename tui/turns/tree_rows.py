"""The turns as a tree in rows: what was refined from what, with marks that need no colour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

from rich.text import Text

from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.history import Turn
from kernelagent.storage.git_history import harmless
from kernelagent.tui.view import View

MARKS = {
    "accepted": ("✓", "green"),
    "rejected": ("✗", "red"),
    "error": ("!", "yellow"),
    "void": ("∅", "dim"),
    "pending": ("…", "cyan"),
}
_DEEPEST = 12


@dataclass(frozen=True)
class TreeRow:
    """One turn in its place."""

    turn: int
    depth: int
    """0 on the path from the root to the newest turn; a side branch is shown above that path, one level deeper."""
    write: Callable[[], Text] = field(compare=False)

    @cached_property
    def text(self) -> Text:
        """Rendered only when the row is visible: a screen shows about thirty of a thousand rows."""
        return self.write()


def tree_rows(view: View) -> list[TreeRow]:
    """All turns below what they refine; the line that leads to the newest turn comes last."""
    turns = view.state.history.turns
    known = {turn.index for turn in turns}
    children: dict[int | None, list[Turn]] = {}
    newest: dict[int, int] = {}
    for turn in reversed(turns):
        parent = turn.request.parent if turn.request.parent in known else None
        children.setdefault(parent, []).append(turn)
        below = children.get(turn.index, ())
        newest[turn.index] = max([turn.index, *(newest[child.index] for child in below)])
    rows: list[TreeRow] = []
    waiting = [(turn, 0) for turn in _last_first(children.get(None, []), newest)]
    while waiting:
        turn, depth = waiting.pop()
        rows.append(TreeRow(turn.index, depth, partial(_line, view, turn, depth)))
        below = _last_first(children.get(turn.index, []), newest)
        waiting += [(child, depth + (place > 0)) for place, child in enumerate(below)]
    return rows


def _last_first(turns: list[Turn], newest: dict[int, int]) -> list[Turn]:
    return sorted(turns, key=lambda turn: -newest[turn.index])


def verdict_of(turn: Turn) -> str:
    """`accepted`, `rejected`, `error`, `void` or `pending`."""
    if turn.evaluation is not None:
        return turn.evaluation.verdict
    return "void" if turn.void else "pending"


def short_number(evaluation: Evaluation) -> str:
    """The speedup over eager, or the estimate's ratio with `est` behind it."""
    if evaluation.timing is not None:
        return f"{evaluation.timing.speedup_eager.value:.2f}×"
    if evaluation.estimate is not None:
        return f"{evaluation.estimate.ratio:.2f}× est"
    return "correct"


def _line(view: View, turn: Turn, depth: int) -> Text:
    mark, style = MARKS[verdict_of(turn)]
    indent = "  " * min(depth, _DEEPEST)
    line = Text(f"{indent}{turn.index:>3} ", no_wrap=True)
    line.append(mark, f"bold {style}")
    line.append(f" {_what(view, turn)}")
    if view.best is not None and view.best.index == turn.index:
        line.append(" ★ best", "bold")
    if view.state.emitted is not None and view.state.winner_turn == turn.index:
        line.append(" ▶ emitted", "bold")
    if view.state.steering.pinned == turn.index:
        line.append(" ⚑ pinned", "bold")
    line.append(f" {turn.request.kind}", "dim")
    if turn.request.parent is not None:
        line.append(f" ← {turn.request.parent}", "dim")
    return line


def _what(view: View, turn: Turn) -> str:
    result = turn.evaluation
    if result is not None:
        return short_number(result) if result.reason is None else result.reason.code
    if turn.void:
        return "void"
    if turn.reply is not None:
        return "judging"
    arrived = view.characters.get(turn.index)
    return "asking" if arrived is None else "streaming"


def model_and_kind(turn: Turn) -> str:
    """Who was asked, and for what."""
    parent = "" if turn.request.parent is None else f" from turn {turn.request.parent}"
    return f"{turn.request.kind}{parent}, {harmless(turn.request.model)}"
