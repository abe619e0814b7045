"""One run on one screen: the best so far, its curve, the tree of turns, spend, and what happens now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import Digits, Footer, Static

from kernelagent.cli.commands.runs import command_of
from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.errors import UsageError
from kernelagent.prompts.wording import steered_text
from kernelagent.storage.inbox import is_going_on, send
from kernelagent.storage.run_log import RunFolder
from kernelagent.tui import panels
from kernelagent.tui.curve import curve
from kernelagent.tui.dialogs import AskText, Confirm, Words, keys_text
from kernelagent.tui.follow import Follower
from kernelagent.tui.lines import Lines
from kernelagent.tui.turns.compare_screen import CompareScreen
from kernelagent.tui.turns.tree_rows import tree_rows
from kernelagent.tui.turns.turn_screen import TurnScreen
from kernelagent.tui.turns.turn_tree import TurnTree
from kernelagent.tui.view import AXES, View

POLL_S = 0.1
LIVE_S = 1.0
"""How often it is asked whether somebody still writes the run."""
KEYS = (
    (
        "Look",
        (
            ("↑ ↓ j k", "choose a turn; end: follow the newest"),
            ("enter", "open the turn: code, diff, verdict, kernels, prompt"),
            ("d", "on two turns, one after the other: compare them"),
            ("c", "curve against turns, tokens, dollars, seconds"),
            ("t", "light or dark; ctrl+p: command palette"),
            ("esc", "back; q: leave (the run goes on)"),
        ),
    ),
    (
        "Steer (the run obeys between two steps)",
        (
            ("space", "pause, or resume"),
            ("h", "a hint for the next turn"),
            ("p", "go on from the chosen turn; again: let it go"),
            ("b", "rule a direction out, from now on"),
            ("u", "raise a limit, for example turns=+5"),
            ("e", "accept the best so far, and emit it now"),
            ("x", "stop the run"),
        ),
    ),
    (
        "Marks",
        (
            ("✓ ✗ !", "accepted, rejected, could not be judged"),
            ("∅ …", "nothing to judge, still going on"),
            ("★ ▶ ⚑", "best, emitted, pinned"),
        ),
    ),
)


class RunScreen(Screen[None]):
    """A view of one run's log; attaching to it changes nothing in the run's folder."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause"),
        Binding("h", "hint", "Hint"),
        Binding("p", "pin", "Pin"),
        Binding("b", "ban", "Ban"),
        Binding("u", "budget", "Limit"),
        Binding("e", "emit", "Emit"),
        Binding("x", "stop", "Stop"),
        Binding("d", "compare", "Diff"),
        Binding("c", "axis", "Axis"),
        Binding("question_mark", "help", "Help"),
        Binding("q", "leave", "Quit"),
        Binding("escape", "back", "Back", show=False),
    ]

    def __init__(
        self,
        folder: RunFolder,
        is_live: Callable[[], bool] | None = None,
        name: str | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`is_live`: whether the run goes on; asked of the run's lock where it is not known.

        `clock`: seconds since the epoch, against which it is shown how long a step has taken.
        """
        super().__init__(name=name)
        self._clock = clock
        self.folder = folder
        self.view = View()
        self.live = True
        self._is_live = is_live or (lambda: is_going_on(folder))
        self._follower = Follower(folder.log)
        self._axis = 0
        self._drawn_turns = -1
        self._steered = 0
        self._reading = False
        self._limits = Budget()
        self._limits_of: object = None
        self._shown: dict[str, Text] = {}
        self._broken = False
        self._marked: int | None = None
        """The turn that the next chosen one is compared with."""

    def compose(self) -> ComposeResult:
        yield Static("", id="title")
        with Horizontal(id="top"):
            with Vertical(id="best", classes="panel"):
                yield Digits("-", id="number")
                yield Static(id="best-words")
            yield Static(id="curve", classes="panel")
        with Horizontal(id="middle"):
            yield TurnTree(id="turns", classes="panel")
            yield Lines(id="now", classes="panel")
        yield Lines(id="spend")
        yield Footer(compact=True, show_command_palette=False)

    async def on_mount(self) -> None:
        self.query_one("#best").border_title = "best so far"
        self.query_one(TurnTree).border_title = "turns"
        self._mark(None)
        self.query_one("#now").border_title = "now"
        self.query_one(TurnTree).focus()
        self.live = self._is_live()
        await self.read_all()
        self.set_interval(POLL_S, self.read_all)
        self.set_interval(LIVE_S, self._look)

    def on_resize(self) -> None:
        self._drawn_turns = -1
        self.call_after_refresh(self._draw)

    async def read_all(self) -> None:
        """Take every event there is by now, answering keys in between; then draw once."""
        if self._reading or self._broken:
            return
        self._reading, before = True, self.view.events
        try:
            while events := self._follower.poll():
                self.view.take_all(events)
                await asyncio.sleep(0)
        except (UsageError, KeyError) as error:
            self._broken = True
            self.notify(f"the log cannot be followed any further: {error}", severity="error")
        finally:
            self._reading = False
        if self.view.events != before:
            self._draw()
            self._tell_of_steering()

    def _look(self) -> None:
        was, self.live = self.live, self._is_live()
        if self.live or was:
            self._draw_now()
            self._draw_title()

    def _draw(self) -> None:
        try:
            self._draw_best()
            if self.view.turns_changed != self._drawn_turns:
                self._drawn_turns = self.view.turns_changed
                self.query_one(TurnTree).show_rows(tree_rows(self.view))
                self._draw_curve()
            self._draw_now()
            self._draw_title()
        except NoMatches:
            # The screen is being taken down.
            return

    def _draw_title(self) -> None:
        self._put("#title", Text(panels.title_text(self.view, self.live)))

    def _draw_best(self) -> None:
        number, large = self.query_one("#number", Digits), panels.large_number(self.view)
        if number.value != large:
            number.update(large)
        self._put("#best-words", panels.best_text(self.view))
        self.query_one("#best").border_title = panels.best_title(self.view)
        box, device = self.query_one("#best"), panels.device_text(self.view.state)
        if box.border_subtitle != device:
            box.border_subtitle = device

    def _draw_curve(self) -> None:
        box = self.query_one("#curve", Static)
        axis = AXES[self._axis]
        box.border_title = f"best against {axis}"
        box.border_subtitle = "c: another axis"
        size = box.content_size
        self._put("#curve", curve(self.view.points, axis, size.width, size.height))

    def _draw_now(self) -> None:
        box = self.query_one("#now", Lines)
        size = box.content_size
        now = self._clock()
        box.show(panels.now_text(self.view, self.live, now, size.width, size.height))
        working = self.live and self.view.finished is None and not self.view.paused
        idle = now - self.view.state.last_s if working and self.view.state.last_s else 0.0
        seconds = self.view.state.elapsed_s + max(0.0, idle)
        if self.view.state.run and self._limits_of is not self.view.state.steering:
            self._limits_of = self.view.state.steering
            self._limits = panels.limits_of(self.view.state)
        line = panels.spend_text(self.view, self._limits, seconds, self.size.width)
        self.query_one("#spend", Lines).show(line)

    def _put(self, selector: str, text: Text) -> None:
        """Draw a text where it differs from what stands there; no box changes its size by it."""
        if self._shown.get(selector) != text:
            self._shown[selector] = text
            self.query_one(selector, Static).update(text, layout=False)

    def _tell_of_steering(self) -> None:
        new, self._steered = self.view.steered[self._steered :], len(self.view.steered)
        for event in new[-3:] if self.live else ():
            refused = event.refused is not None
            self.notify(steered_text(event), severity="warning" if refused else "information")

    def on_turn_tree_opened(self, event: TurnTree.Opened) -> None:
        self.app.push_screen(TurnScreen(self.folder, self.view, event.turn))

    def action_compare(self) -> None:
        """The first time the chosen turn is marked, the second time it is compared with that."""
        turn = self.query_one(TurnTree).turn
        if turn is None:
            self.notify("there is no turn to compare yet", severity="warning")
        elif self._marked is None:
            self._mark(turn)
        elif self._marked == turn:
            self._mark(None)
        else:
            self.app.push_screen(CompareScreen(self.view, self._marked, turn))
            self._mark(None)

    def _mark(self, turn: int | None) -> None:
        self._marked = turn
        words = "enter: open" if turn is None else f"d: compare with turn {turn}"
        self.query_one(TurnTree).border_subtitle = words

    def action_axis(self) -> None:
        self._axis = (self._axis + 1) % len(AXES)
        self._draw_curve()

    def action_help(self) -> None:
        self.app.push_screen(Words("Keys", keys_text(KEYS)))

    def action_leave(self) -> None:
        self.app.exit()

    def action_back(self) -> None:
        """To the start screen, where there is one below."""
        if len(self.app.screen_stack) > 2:
            self.app.pop_screen()

    def action_pause(self) -> None:
        self._send("resume" if self.view.paused else "pause")

    def action_pin(self) -> None:
        turn = self.query_one(TurnTree).turn
        if turn is None:
            self.notify("there is no turn to go on from yet", severity="warning")
        elif turn == self.view.state.steering.pinned:
            self._send("unpin")
        else:
            self._send("pin", str(turn))

    def action_hint(self) -> None:
        self._ask("A hint for the next turn", "load each row once, keep it in registers", "hint")

    def action_ban(self) -> None:
        self._ask("A direction that is not to be taken any more", "atomics", "ban")

    def action_budget(self) -> None:
        self._ask("Raise limits", "turns=+5 usd=+1", "budget")

    def action_emit(self) -> None:
        self._confirm("Accept the best so far and emit it now?", "emit")

    def action_stop(self) -> None:
        self._confirm(
            "Stop the run after this step? The best so far is judged once more, and written if it holds.",
            "stop",
        )

    def _ask(self, title: str, example: str, act: str) -> None:
        def answered(text: str | None) -> None:
            if text is not None:
                self._send(act, text)

        self.app.push_screen(AskText(title, example), answered)

    def _confirm(self, question: str, act: str) -> None:
        def answered(answer: str | None) -> None:
            if answer == "y":
                self._send(act)

        self.app.push_screen(Confirm(question, [("y", "yes"), ("n", "no")]), answered)

    def _send(self, act: str, *words: str) -> None:
        try:
            send(self.folder, command_of(act, words))
        except (UsageError, OSError) as error:
            self.notify(str(error), severity="error")
        else:
            self.notify(f"sent: {' '.join((act, *words))}; obeyed between two steps", timeout=3)
