"""Progress of a measurement, reported to a listener at most a few times a second.

The number of blocks is unknown until the interval is narrow enough, so the total reported is a lower
bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

EVERY_S = 0.3
Running = Callable[[int, int], None]
"""Receives the blocks that are done, and how many there will be at least."""


def silent(done: int, of: int) -> None:
    """The listener that ignores progress."""


@dataclass
class Blocks:
    """Counts the blocks of one measurement."""

    tell: Running = silent
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    least: int = 0
    _reported_s: float | None = None

    def expect(self, more: int) -> None:
        """Add to the least number of blocks expected."""
        self.least = max(self.least, self.done + more)

    def took(self, count: int = 1) -> None:
        """Add to the number of blocks done."""
        self.done += count
        self.least = max(self.least, self.done)
        now = self.clock()
        if self._reported_s is None or now - self._reported_s >= EVERY_S:
            self._reported_s = now
            self.tell(self.done, self.least)
