"""How long the candidate's own Python takes: the time of its calls less that of launches and of torch.

The clock is taken when this is imported, before the candidate is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from time import perf_counter as _clock


class HostTime:
    """Keeps the seconds of each call, besides launches and what is noted as `elsewhere`."""

    def __init__(self, launching: Callable[[], float]) -> None:
        """`launching`: seconds that launches have taken so far."""
        self.calls: list[float] = []
        self.elsewhere = 0.0
        """Seconds of torch's operations so far, where torch is watched."""
        self._launching = launching

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Around one forward; one that raises is not kept."""
        began, before = _clock(), self._launching() + self.elsewhere
        yield
        elsewhere = self._launching() + self.elsewhere - before
        self.calls.append(max(0.0, _clock() - began - elsewhere))

    def take(self) -> list[float]:
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls
