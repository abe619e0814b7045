"""A budget of seconds for code that may never come back by itself."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.launch import AccessKind, Launch, OperationKind

_PROBED_PROGRAMS = (4, 64, 1024)


class TimeIsUp(Exception):
    """The interpretation budget is spent."""


class Clock:
    """An observer that ends a launch which will be too long; one that spins meets the deadline."""

    ignores_accesses = ignores_operations = True

    def __init__(self, launch: Launch, seconds: float, programs: int) -> None:
        self._seconds = seconds
        self._programs = programs
        self._begun = 0
        self._began = time.perf_counter()
        self._name = launch.kernel
        self._grid = launch.grid

    def launch_begins(self, launch: Launch) -> None:
        self._began = time.perf_counter()

    def program_begins(self, program: tuple[int, int, int]) -> None:
        if self._begun in _PROBED_PROGRAMS:
            each = (time.perf_counter() - self._began) / self._begun
            if each * self._programs > self._seconds:
                raise self._words(f"would take about {each * self._programs:.0f} s")
        self._begun += 1

    def access(
        self, kind: AccessKind, addresses: NDArray[np.uint64], item_bytes: int, lanes: int
    ) -> None:
        """The time is looked at between programs."""

    def operation(self, kind: OperationKind, count: int, dtype: str) -> None:
        """The time is looked at between programs."""

    def launch_ends(self, launch: Launch) -> None:
        """Done in time."""

    def late(self) -> TimeIsUp:
        return self._words("did not end")

    def _words(self, what: str) -> TimeIsUp:
        return TimeIsUp(
            f"`{self._name}` on grid {self._grid} {what} in the interpreter, and {self._seconds:.0f} "
            f"s are left; use larger blocks, smaller inputs with --inputs FUNCTION, or --device cuda"
        )


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
