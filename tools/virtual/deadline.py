"""A budget of seconds for code that may never come back by itself."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def deadline(seconds: float, late: Callable[[], Exception]) -> Iterator[None]:
    """Raise `late()` in the block once `seconds` are over; only in a process's main thread."""

    def ring(*_: Any) -> None:
        raise late()

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
