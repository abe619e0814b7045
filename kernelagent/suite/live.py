"""The suite while it runs: a live table on a terminal, else a line for each problem that ends."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Self

from kernelagent.domain.events import Evaluated, Logged, RunStarted, TurnVoid
from kernelagent.prompts.wording import doing_after, summary

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console
    from rich.live import Live as RichLive
    from rich.table import Table

_LATEST = 8
_REDRAWS_PER_S = 4


@dataclass
class _Row:
    doing: str = "starting"
    turns: int = 0
    latest: str = ""
    began: float = field(default_factory=time.monotonic)


@dataclass
class Live:
    """A `Watcher` and context manager; `console` writes to stderr."""

    console: Console
    total: int
    _running: dict[str, _Row] = field(default_factory=dict)
    _ended: list[tuple[str, int, str]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _live: RichLive | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            from rich.live import Live as RichLive

            self._live = RichLive(
                get_renderable=self.table,
                console=self.console,
                refresh_per_second=_REDRAWS_PER_S,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def begun(self, key: str) -> None:
        with self._lock:
            self._running[key] = _Row()

    def happened(self, key: str, logged: Logged) -> None:
        with self._lock:
            row = self._running.setdefault(key, _Row())
            row.doing = doing_after(logged) or row.doing
            match logged.event:
                case RunStarted():
                    row.turns = 0
                case Evaluated() as e:
                    row.turns, row.latest = e.turn + 1, summary(e.evaluation)
                case TurnVoid() as e:
                    row.turns, row.latest = e.turn + 1, "nothing to evaluate"
                case _:
                    pass

    def ended(self, key: str, exit_status: int, why: str) -> None:
        with self._lock:
            row = self._running.pop(key, None)
            self._ended.append((key, exit_status, why))
            if self._live is None:
                seen = f"; {row.latest}" if row is not None and row.latest else ""
                done = f"{len(self._ended)}/{self.total} {key}: exit {exit_status}{seen}; {why}"
                self.console.print(done, highlight=False, markup=False, soft_wrap=True)

    def table(self) -> Table:
        """What is running, and what ended last."""
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            title = f"{len(self._ended)} of {self.total} problems, {len(self._running)} running"
            table = Table("problem", "turns", "s", "now", "latest", title=title)
            for key, exit_status, why in self._ended[-_LATEST:]:
                table.add_row(Text(key), "", "", f"ended ({exit_status})", Text(why[:80]))
            for key, row in self._running.items():
                seconds = f"{time.monotonic() - row.began:.0f}"
                shown = (Text(row.doing), Text(row.latest[:80]))
                table.add_row(Text(key), str(row.turns), seconds, *shown)
            return table
