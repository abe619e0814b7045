"""Two turns beside each other: verdict, estimate or time, disclosures, and the code's difference."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.history import Turn
from kernelagent.prompts.wording import number
from kernelagent.storage.git_history import harmless
from kernelagent.tui.dialogs import Words, keys_text
from kernelagent.tui.turns.tree_rows import MARKS, model_and_kind, verdict_of
from kernelagent.tui.view import View

_LOOK_S = 0.5
KEYS = (
    (
        "Two turns compared",
        (
            ("s", "swap the sides"),
            ("[ ]", "the turn before, the turn after on the right"),
            ("↑ ↓ pgup", "scroll"),
            ("esc", "back to the run"),
        ),
    ),
)


class CompareScreen(Screen[None]):
    """Drawn again when one of the two goes on while it is open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "Back"),
        Binding("s", "swap", "Swap"),
        Binding("left_square_bracket", "step(-1)", "Before"),
        Binding("right_square_bracket", "step(1)", "After"),
        Binding("question_mark", "help", "Help"),
    ]

    def __init__(self, view: View, left: int, right: int) -> None:
        super().__init__()
        self._view = view
        self._sides = (left, right)
        self._drawn: object = None

    def compose(self) -> ComposeResult:
        yield Static("", id="title")
        with VerticalScroll(id="compared"):
            yield Static(id="compared-text")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self._draw()
        self.set_interval(_LOOK_S, self._draw)
        self.query_one("#compared").focus()

    def action_swap(self) -> None:
        left, right = self._sides
        self._sides = (right, left)
        self._draw()

    def action_step(self, by: int) -> None:
        """Another turn on the right, never the one on the left."""
        left, right = self._sides
        known = [turn.index for turn in self._view.state.history.turns if turn.index != left]
        place = known.index(right) + by
        if 0 <= place < len(known):
            self._sides = (left, known[place])
            self._draw()

    def action_help(self) -> None:
        self.app.push_screen(Words("Keys", keys_text(KEYS)))

    def _draw(self) -> None:
        left, right = map(self._view.state.history.turn, self._sides)
        signature = (left, right, self.app.current_theme.dark)
        if signature == self._drawn:
            return
        self._drawn = signature
        title = f" turn {left.index} beside turn {right.index}"
        self.query_one("#title", Static).update(title)
        facts = _facts(self._view, left, right)
        shown = Group(facts, Text(), self._difference(left, right))
        self.query_one("#compared-text", Static).update(shown)

    def _difference(self, left: Turn, right: Turn) -> RenderableType:
        for turn in (left, right):
            if turn.candidate is None:
                why = turn.void or "it is pending"
                return Text(f"no difference to show: turn {turn.index} has no candidate ({why})")
        lines = difflib.unified_diff(
            _lines(left), _lines(right), f"turn {left.index}", f"turn {right.index}", lineterm=""
        )
        text = "\n".join(lines)
        if not text:
            return Text("both turns wrote the same text")
        theme = "ansi_dark" if self.app.current_theme.dark else "ansi_light"
        coloured = Syntax(text, "diff", theme=theme).highlight(text)
        # The theme's own background would stand out from the screen's.
        coloured.style = ""
        return coloured


def _lines(turn: Turn) -> list[str]:
    return harmless(turn.candidate.source).splitlines() if turn.candidate is not None else []


def _facts(view: View, left: Turn, right: Turn) -> Table:
    """A row for each fact that either side has."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    heads = (Text(f"turn {turn.index}{_standing(view, turn)}", "bold") for turn in (left, right))
    table.add_row("", *heads)
    table.add_row("verdict", _verdict(left), _verdict(right))
    table.add_row("asked for", model_and_kind(left), model_and_kind(right))
    for name, fact in _OF_AN_EVALUATION:
        cells = [fact(turn.evaluation) if turn.evaluation else "" for turn in (left, right)]
        if any(cells):
            table.add_row(name, *(Text(harmless(cell) or "-") for cell in cells))
    table.add_row("spent", _spent(view, left), _spent(view, right))
    return table


def _standing(view: View, turn: Turn) -> str:
    best = view.best is not None and view.best.index == turn.index
    emitted = view.state.emitted is not None and view.state.winner_turn == turn.index
    return (" ★ best" if best else "") + (" ▶ emitted" if emitted else "")


def _verdict(turn: Turn) -> Text:
    verdict = verdict_of(turn)
    mark, style = MARKS[verdict]
    text = Text(f"{mark} {verdict}", f"bold {style}")
    result = turn.evaluation
    if result is not None and result.reason is not None:
        text.append(f": {result.reason.code}\n{harmless(result.reason.message)}", "not bold")
    elif turn.void:
        text.append(f": {harmless(turn.void)}", "not bold")
    return text


def _number(evaluation: Evaluation) -> str:
    return number(evaluation) if evaluation.accepted else ""


def _error(evaluation: Evaluation) -> str:
    c = evaluation.correctness
    return "" if c is None else f"{c.error:.3g} of {c.budget:.3g}, on {c.trials} trials"


def _kernels(evaluation: Evaluation) -> str:
    return ", ".join(dict.fromkeys(kernel.name for kernel in evaluation.kernels))


def _disclosed(evaluation: Evaluation) -> str:
    return "\n".join(f"{item.code}: {item.message}" for item in evaluation.disclosures)


_OF_AN_EVALUATION: tuple[tuple[str, Callable[[Evaluation], str]], ...] = (
    ("speed", _number),
    ("RMS error", _error),
    ("kernels", _kernels),
    ("disclosed", _disclosed),
)


def _spent(view: View, turn: Turn) -> str:
    spent = view.spendings.get(turn.index)
    if spent is None:
        return "-"
    price = "no known price" if spent.dollars is None else f"${spent.dollars:.4f}"
    return f"{spent.tokens_in}+{spent.tokens_out} tokens, {price}"
