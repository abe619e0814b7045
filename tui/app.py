"""The application: themes, the command palette, and which screen comes first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import UsageError
from kernelagent.storage.run_log import RunFolder
from kernelagent.tui.run_screen import RunScreen
from kernelagent.tui.start_screen import StartScreen
from kernelagent.tui.turns.turn_tree import TurnTree

_RUN_COMMANDS = (
    ("Pause or resume", "The run waits between two steps", "pause"),
    ("Hint", "A word for the next turn", "hint"),
    ("Pin", "Go on from the chosen turn", "pin"),
    ("Ban", "Rule a direction out", "ban"),
    ("Raise a limit", "For example turns=+5", "budget"),
    ("Accept and emit", "End the run with the best so far", "emit"),
    ("Stop", "End the run", "stop"),
    ("Axis of the curve", "Turns, tokens, dollars or seconds", "axis"),
)


class KernelAgentApp(App[None]):
    """`first` is shown; what the run's log says is all it knows."""

    CSS_PATH = "app.tcss"
    TITLE = "kernelagent"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "light_or_dark", "Light/dark", show=False),
        Binding("ctrl+q", "quit", "Leave", show=False),
    ]

    def __init__(self, first: Screen[None]) -> None:
        super().__init__()
        self._first = first

    def on_mount(self) -> None:
        self.theme = "textual-dark"
        self.push_screen(self._first)

    def action_light_or_dark(self) -> None:
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        if isinstance(screen, RunScreen):
            for title, help_, action in _RUN_COMMANDS:
                yield SystemCommand(title, help_, getattr(screen, f"action_{action}"))
            yield SystemCommand(
                "Open turn", "Code, diff, verdict", screen.query_one(TurnTree).action_open
            )


def start_at(target: str | None, config: RunConfig) -> Screen[None]:
    """The run's screen for a run, the start screen for a problem or for nothing."""
    if target is None:
        return StartScreen(config)
    try:
        return RunScreen(RunFolder.open(target, Path(config.runs)))
    except UsageError:
        if (target.endswith(".py") and Path(target).is_file()) or ":" in target:
            return StartScreen(config, target)
        raise
