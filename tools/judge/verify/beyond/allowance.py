"""How much time the calls beyond the verdict's own may take together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kernelagent.tools.sandbox.limits import tree_seconds


@dataclass(frozen=True)
class Spans:
    """How long calls of one kind may take."""

    seconds: float
    """Of processor time."""
    in_a_turn: float
    """The same in a turn, whose winner is judged again: of the calls a sample is made."""
    longest: float
    """By the clock, on a busy machine."""

    def allowance(self, *, sample: bool, by_work: bool) -> Allowance:
        """One that begins now. `by_work`: processor time counts; else the clock's, as on a GPU, whose work is none."""
        seconds = self.in_a_turn if sample else self.seconds
        return Allowance(seconds, self.longest if by_work else seconds, sample=sample)


class Allowance:
    """Seconds of processor time of the judge and all its processes, so that a busy machine takes nothing away."""

    def __init__(
        self,
        seconds: float,
        longest: float,
        *,
        sample: bool = False,
        clock: Callable[[], float] = time.monotonic,
        worked: Callable[[], float] = tree_seconds,
    ) -> None:
        """`longest`: seconds by the clock, after which it is spent whatever was worked in them.

        `sample`: it is not meant for all calls: that some were not made is no news.
        """
        self.sample = sample
        self.seconds, self._longest = seconds, longest
        self._clock, self._worked = clock, worked
        self._began, self._had_worked = clock(), worked()

    @property
    def spent(self) -> bool:
        passed = self._clock() - self._began
        # What was worked is asked for late: all processes of the machine are looked through for it.
        if passed <= self.seconds:
            return False
        return passed > self._longest or self._worked() - self._had_worked > self.seconds
