"""What the terminal shows while a run happens: a line an event, and a spinner between them.

Where nobody watches a spinner, in a pipe or a log, a line says now and then how far the run is, and what took long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernelagent.domain.events import (
    Evaluated,
    Logged,
    StageFinished,
    TurnStarted,
    TurnVoid,
    WinnerMeasured,
)
from kernelagent.prompts.wording import Pace, doing_after, line_for

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


_TELL_S = 60.0
"""How often a log is told how far the run is, at most."""
_LONG_S = 20.0
"""A step of a judging that took so long is a line of a log."""
_STEPS = {
    "neighbours": "inputs near yours, tried",
    "emitted": "the file as it will be written, called",
}
_AGAIN = "could not be judged in time at these sizes; it is judged again at smaller ones"


@dataclass
class Progress:
    """A subscriber that prints to `console` (stderr); a spinner only on a terminal."""

    console: Console
    status: Status | None = None
    pace: Pace = field(default_factory=Pace)
    reported_s: float | None = None
    failed: int | None = None
    """The turn whose latest step was not passed."""

    def __call__(self, logged: Logged) -> None:
        self.pace.see(logged)
        if isinstance(logged.event, Evaluated | WinnerMeasured | TurnStarted):
            self.failed = None
        line = line_for(logged)
        if line is not None:
            self._print(line)
        if isinstance(logged.event, StageFinished):
            self._step(logged.event)
        if self.console.is_terminal:
            doing = doing_after(logged)
            left = self.pace.left(logged.time_s)
            self._spin(f"{doing} ({left})" if doing and left else doing)
        elif isinstance(logged.event, Evaluated | TurnVoid):
            self._tell(logged.time_s)

    def _step(self, event: StageFinished) -> None:
        turn, stage = event.turn, event.stage
        if stage.seconds >= _LONG_S and not self.console.is_terminal:
            self._print(
                f"turn {turn}: {_STEPS.get(stage.name, stage.name)}: {stage.status}, {stage.seconds:.0f} s"
            )
        if self.failed == turn:
            # A judging ends with a step that failed, but for one that goes on at other sizes.
            self._print(f"turn {turn} {_AGAIN}")
        self.failed = turn if stage.status == "failed" else None

    def _print(self, line: str) -> None:
        self.console.print(line, highlight=False, soft_wrap=True, markup=False)

    def _tell(self, now_s: float) -> None:
        left, due = (
            self.pace.left(now_s),
            self.reported_s is None or now_s - self.reported_s >= _TELL_S,
        )
        if left is not None and due and self.pace.seconds_left(now_s) >= _TELL_S:
            self.reported_s = now_s
            self._print(left)

    def close(self) -> None:
        if self.status is not None:
            self.status.stop()
            self.status = None

    def _spin(self, doing: str | None) -> None:
        if doing is None:
            self.close()
        elif self.status is None:
            self.status = self.console.status(doing)
            self.status.start()
        else:
            self.status.update(doing)
