"""What the terminal shows while a run happens: a line an event, and a spinner between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernelagent.domain.events import Logged
from kernelagent.prompts.wording import Pace, doing_after, line_for

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


@dataclass
class Progress:
    """A subscriber that prints to `console` (stderr); a spinner only on a terminal."""

    console: Console
    status: Status | None = None
    pace: Pace = field(default_factory=Pace)

    def __call__(self, logged: Logged) -> None:
        self.pace.see(logged)
        line = line_for(logged)
        if line is not None:
            self.console.print(line, highlight=False, soft_wrap=True, markup=False)
        if self.console.is_terminal:
            doing = doing_after(logged)
            left = self.pace.left(logged.time_s)
            self._spin(f"{doing} ({left})" if doing and left else doing)

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
