"""One turn, opened: code, diff to its parent, verdict, kernels, prompt, calls of tools, reply and feedback."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static, TabbedContent, TabPane

from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.events import ToolCalled
from kernelagent.domain.history import Turn
from kernelagent.prompts.wording import number
from kernelagent.report.headroom import headroom_rows
from kernelagent.report.terminal.browse_text import kernels_table
from kernelagent.storage.git_history import harmless
from kernelagent.storage.run_log import RunFolder
from kernelagent.tui.dialogs import Words, keys_text
from kernelagent.tui.turns.tree_rows import MARKS, model_and_kind, verdict_of
from kernelagent.tui.view import View

PANES = ("code", "diff", "verdict", "kernels", "prompt", "tools", "reply", "feedback")
_LOOK_S = 0.5
_TAB_PADDING = 2
"""Columns of a tab beside its words."""
KEYS = (
    (
        "An opened turn",
        (
            ("1 to 8", "code, diff, verdict, kernels, prompt, tools, reply, feedback"),
            ("[ ]", "the turn before, the turn after"),
            ("↑ ↓ pgup", "scroll"),
            ("esc", "back to the run"),
        ),
    ),
)


class TurnScreen(Screen[None]):
    """Drawn again when the turn goes on while it is open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "Back"),
        Binding("left_square_bracket", "step(-1)", "Before"),
        Binding("right_square_bracket", "step(1)", "After"),
        *[
            Binding(str(place), f"pane('{name}')", name.capitalize(), show=False)
            for place, name in enumerate(PANES, 1)
        ],
        Binding("question_mark", "help", "Help"),
    ]

    def __init__(self, folder: RunFolder, view: View, turn: int) -> None:
        super().__init__()
        self._folder = folder
        self._view = view
        self._index = turn
        self._drawn: object = None

    def compose(self) -> ComposeResult:
        yield Static("", id="title")
        with TabbedContent(id="panes"):
            for place, name in enumerate(PANES, 1):
                with TabPane(f"{place} {name}", id=name), VerticalScroll():
                    yield Static(id=f"{name}-text")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self._draw()
        self.set_interval(_LOOK_S, self._draw)
        self.call_after_refresh(self._focus_pane)

    def on_tabbed_content_tab_activated(self) -> None:
        self._name_tabs()
        self._drawn = None
        self._draw()

    def on_resize(self) -> None:
        self._name_tabs()

    def _name_tabs(self) -> None:
        """Where the names do not fit beside each other, only the open pane has its own."""
        tabs = self.query_one(TabbedContent)
        names = {name: f"{place} {name}" for place, name in enumerate(PANES, 1)}
        fits = sum(len(text) + _TAB_PADDING for text in names.values()) <= self.size.width
        for name, text in names.items():
            tabs.get_tab(name).label = text if fits or name == tabs.active else text[:1]

    def action_pane(self, name: str) -> None:
        self.query_one(TabbedContent).active = name
        self.call_after_refresh(self._focus_pane)

    def action_step(self, by: int) -> None:
        known = [turn.index for turn in self._view.state.history.turns]
        place = known.index(self._index) + by if self._index in known else 0
        if 0 <= place < len(known):
            self._index = known[place]
            self._drawn = None
            self._draw()

    def action_help(self) -> None:
        self.app.push_screen(Words("Keys", keys_text(KEYS)))

    def _focus_pane(self) -> None:
        name = self.query_one(TabbedContent).active
        if name:
            self.query_one(f"#{name} VerticalScroll").focus()

    def _draw(self) -> None:
        turn = self._turn()
        arriving = self._view.arriving.get(self._index, "")
        calls = self._view.state.tool_calls.get(self._index, ())
        signature = (turn, arriving, len(calls))
        if turn is None or signature == self._drawn:
            return
        self._drawn = signature
        self.query_one("#title", Static).update(_title(self._view, turn))
        name = self.query_one(TabbedContent).active or PANES[0]
        self.query_one(f"#{name}-text", Static).update(self._pane(name, turn, arriving))

    def _turn(self) -> Turn | None:
        try:
            return self._view.state.history.turn(self._index)
        except KeyError:
            return None

    def _pane(self, name: str, turn: Turn, arriving: str) -> RenderableType:
        match name:
            case "code":
                return self._code(turn)
            case "diff":
                return self._diff(turn)
            case "verdict":
                return _verdict(turn)
            case "kernels":
                return _kernels(turn)
            case "prompt":
                return self._prompt()
            case "tools":
                return _calls(self._view.state.tool_calls.get(turn.index, ()))
            case "reply":
                return Text(harmless(turn.reply or arriving) or "nothing has come yet")
            case _:
                return Text(harmless(turn.feedback) or "none yet")

    def _code(self, turn: Turn) -> RenderableType:
        if turn.candidate is None:
            return Text(turn.void or "no candidate yet")
        return self._syntax(turn.candidate.source, "python", numbered=True)

    def _syntax(self, source: str, language: str, *, numbered: bool = False) -> Text:
        theme = "ansi_dark" if self.app.current_theme.dark else "ansi_light"
        text = Syntax(harmless(source), language, theme=theme).highlight(harmless(source))
        # The theme's own background would stand out from the screen's.
        text.style = ""
        if not numbered:
            return text
        lines = text.split("\n", allow_blank=True)
        return Text("\n", no_wrap=True).join(
            Text().append(f"{number:>4} ", "dim").append_text(line)
            for number, line in enumerate(lines, 1)
        )

    def _diff(self, turn: Turn) -> RenderableType:
        parent = turn.request.parent
        if parent is None:
            return Text("this turn began afresh: there is no parent to differ from")
        before = self._view.state.history.turn(parent).candidate
        if before is None or turn.candidate is None:
            return Text("one of the two turns has no candidate")
        lines = list(
            difflib.unified_diff(
                before.source.splitlines(),
                turn.candidate.source.splitlines(),
                f"turn {parent}",
                f"turn {turn.index}",
                lineterm="",
            )
        )
        if not lines:
            return Text("both turns wrote the same text")
        return self._syntax("\n".join(lines), "diff")

    def _prompt(self) -> RenderableType:
        messages = self._folder.kept_prompt(self._index)
        if messages is None:
            return Text("the prompt of this turn is not in the run's folder")
        text = Text()
        for message in messages:
            text.append(f"── {message.role} ──\n", "bold")
            text.append(f"{harmless(message.content)}\n\n")
        return text


def _calls(calls: Sequence[ToolCalled]) -> RenderableType:
    """Every call of the turn: what was written with it, its code, its answer."""
    if not calls:
        return Text("no tool was called before this turn's candidate")
    text = Text()
    for called in calls:
        text.append(f"── {harmless(called.call.tool)} {called.number} ──\n", "bold")
        if called.said:
            text.append(f"{harmless(called.said)}\n\n", "dim")
        for name, value in called.call.arguments.items():
            shown = value if isinstance(value, str) else json.dumps(value)
            text.append(f"{harmless(name)}: ", "dim")
            text.append(f"{harmless(shown)}\n")
        text.append(f"{harmless(called.answer)}\n\n")
    return text


def _title(view: View, turn: Turn) -> Text:
    verdict = verdict_of(turn)
    mark, style = MARKS[verdict]
    text = Text(f" turn {turn.index} ")
    text.append(mark, f"bold {style}")
    text.append(f" {verdict}  {model_and_kind(turn)}")
    spent = view.spendings.get(turn.index)
    if spent is not None:
        price = "no known price" if spent.dollars is None else f"${spent.dollars:.4f}"
        text.append(f"  {spent.tokens_in}+{spent.tokens_out} tokens, {price}", "dim")
    return text


def _verdict(turn: Turn) -> RenderableType:
    result = turn.evaluation
    if result is None:
        return Text(f"void: {turn.void}" if turn.void else "not judged yet")
    text = Text()
    if result.reason is not None:
        text.append(f"{result.verdict}: {result.reason.code}\n", "bold red")
        text.append(f"{harmless(result.reason.message)}\n")
        for key, value in result.reason.detail.items():
            shown = value if isinstance(value, str) else json.dumps(value, default=str)
            text.append(f"  {key}: ", "dim")
            text.append(f"{harmless(shown)}\n")
    else:
        text.append("accepted\n", "bold green")
        text.append(f"{number(result)}\n")
    text.append(_correctness(result))
    text.append("\nstages\n", "bold")
    for stage in result.stages:
        text.append(f"  {stage.status:<8} {stage.name:<20} {stage.seconds:7.2f} s\n")
    if result.disclosures:
        text.append("\ndisclosed\n", "bold")
        for item in result.disclosures:
            text.append(f"  {item.code}: {harmless(item.message)}\n")
    text.append(f"\nreward {turn.reward:.3g}; policy {result.policy}, sandbox {result.sandbox}\n")
    return text


def _correctness(evaluation: Evaluation) -> str:
    if evaluation.correctness is None:
        return ""
    c = evaluation.correctness
    return f"correct on {c.trials} trials; RMS error {c.error:.3g} of a budget of {c.budget:.3g}\n"


def _kernels(turn: Turn) -> RenderableType:
    result = turn.evaluation
    if result is None or not result.kernels:
        return Text("nothing is known of this turn's kernels")
    parts: list[RenderableType] = [kernels_table(result.kernels)]
    if result.headroom:
        text = Text("\nroofline: what the device allows at most\n", "bold")
        for name, words in headroom_rows(result.headroom):
            text.append(f"  {name:<17} {words}\n", "")
        parts.append(text)
    return Group(*parts)
