"""How much time the calls beyond the verdict's own may take together."""

from __future__ import annotations

import time
from collections.abc import Callable

from kernelagent.tools.sandbox.limits import tree_seconds


class Allowance:
    """Seconds of processor time of the judge and all its processes, so that a busy machine takes nothing away."""

    def __init__(
        self,
        seconds: float,
        longest: float,
        clock: Callable[[], float] = time.monotonic,
        worked: Callable[[], float] = tree_seconds,
    ) -> None:
        """`longest`: seconds by the clock, after which it is spent whatever was worked in them."""
        self._seconds, self._longest = seconds, longest
        self._clock, self._worked = clock, worked
        self._began, self._had_worked = clock(), worked()

    @property
    def spent(self) -> bool:
        passed = self._clock() - self._began
        # What was worked is asked for late: all processes of the machine are looked through for it.
        if passed <= self._seconds:
            return False
        return passed > self._longest or self._worked() - self._had_worked > self._seconds
