"""A budget of seconds for code that may never come back by itself."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.executor.launch import AccessKind, Launch, OperationKind

_PROBED_PROGRAMS = (4, 64, 1024)
_TRIED_SECONDS = 1.0
"""Do not extrapolate before this many seconds: start-up would dominate."""


class TimeIsUp(Exception):
    """The interpretation budget is spent."""

    def __init__(self, code: str, message: str, detail: dict[str, Any]) -> None:
        """`code`: `timeout` for a program that does not come back, else `unverifiable`."""
        super().__init__(message)
        self.code = code
        self.detail = detail


class Clock:
    """An observer that ends a launch predicted to exceed the budget; an endless program hits the deadline.

    Programs that come back are work that the interpreter has no time for, which is no fault of the
    candidate: `unverifiable`, and smaller inputs may do. Where none came back, though nearly all of
    the time was spent in this launch, it is probably an endless loop: `timeout`.
    """

    ignores_accesses = ignores_operations = True

    def __init__(
        self, launch: Launch, seconds: float, spent: float = 0.0, *, projects: bool = True
    ) -> None:
        """`seconds` are left of the budget, `spent` were used before; `projects`: end it early."""
        self._seconds = seconds
        self._spent = spent
        self._projects = projects
        self._programs = launch.programs
        self._begun = 0
        self._began = time.perf_counter()
        self._name = launch.kernel
        self._grid = launch.grid

    def launch_begins(self, launch: Launch) -> None:
        self._began = time.perf_counter()

    def ended(self, done: int) -> None:
        """So many programs have come back, and another one is under way."""
        self._begun = done + 1

    def progress(self, done: int) -> None:
        """So many programs have ended; raises `TimeIsUp` when all would take too long."""
        self.ended(done)
        now = time.perf_counter() - self._began
        if self._projects and 0 < done < self._programs and now > _TRIED_SECONDS:
            whole = now / done * self._programs
            if whole > self._seconds:
                raise self._beyond(f"would take about {whole:.0f} s")

    def program_begins(self, program: tuple[int, int, int]) -> None:
        if self._projects and self._begun in _PROBED_PROGRAMS:
            each = (time.perf_counter() - self._began) / self._begun
            if each * self._programs > self._seconds:
                raise self._beyond(f"would take about {each * self._programs:.0f} s")
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
        if self._begun > 1 or self._spent > self._seconds:
            return self._beyond("did not end")
        return TimeIsUp(
            "timeout",
            f"a program of `{self._name}` on grid {self._grid} did not come back within "
            f"{self._seconds:.0f} s; does a loop never end? If it is only long, give smaller inputs "
            f"with --inputs FUNCTION, or use --device cuda",
            {},
        )

    def _beyond(self, what: str) -> TimeIsUp:
        return TimeIsUp(
            "unverifiable",
            f"beyond the time budget: `{self._name}` on grid {self._grid} {what} in the interpreter, and "
            f"{self._seconds:.0f} s are left; a run with a larger --judging-seconds, smaller inputs "
            f"(--inputs FUNCTION) or a GPU (--device cuda) has more",
            {"means": "time"},
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
