"""What all the runs of a suite may cost together, also when several of them run side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition

from kernelagent.domain.configuration.budget import Budget, Spent
from kernelagent.domain.errors import UsageError

_LOOK_AGAIN_S = 0.5


def most_for_one(each: Budget, total: float) -> float:
    """Dollars that one problem may cost; raises `UsageError` when it has no limit or never fits."""
    if each.dollars is None:
        raise UsageError(
            "--total-usd needs --budget-usd: a problem is begun only when all it may cost is left"
        )
    if each.dollars > total:
        raise UsageError(
            f"--total-usd {total:g} is less than one problem may cost; give a --budget-usd below it "
            f"(it is {each.dollars:g})"
        )
    return each.dollars


@dataclass
class SharedBudget:
    """A problem is begun only while its whole budget fits into what is left; thread-safe.

    No run gets a smaller budget than the others: their results would not compare.
    """

    total: float
    """Dollars for the whole suite."""
    each: float
    """Dollars that one problem may cost at most."""
    spent: float
    """Dollars of all runs so far, those cut short included."""
    _held: float = 0.0
    """Dollars set aside for the runs in flight."""
    _in_flight: int = 0
    _refused: str | None = None
    _changed: Condition = field(default_factory=Condition)

    def take(self, already: float, stop_asked: Callable[[], bool]) -> str | None:
        """Set the budget of one problem aside; None, or why there is not enough for it.

        `already`: what its run has cost before. Waits while runs in flight may leave enough.
        """
        most = max(self.each - already, 0.0)
        with self._changed:
            while not stop_asked():
                left = self.total - self.spent - self._held
                if self._refused is not None:
                    return self._refused
                if most <= left:
                    self._held += most
                    self._in_flight += 1
                    return None
                if not self._in_flight:
                    return (
                        f"a problem may cost up to {most:g} dollars, and {max(left, 0):.2f} of the "
                        f"suite's {self.total:g} dollars are left; go on with a larger --total-usd"
                    )
                self._changed.wait(_LOOK_AGAIN_S)
        return "stopped by the user"

    def settle(self, already: float, run: Spent) -> None:
        """The run that had taken its budget has ended; `run`: what it spent since then."""
        with self._changed:
            self._held -= max(self.each - already, 0.0)
            self._in_flight -= 1
            self.spent += run.dollars
            if run.unpriced_tokens:
                self._refused = (
                    f"nobody knows the price of {run.unpriced_tokens} tokens, so that --total-usd "
                    f"cannot be kept; leave it out and limit each problem with --budget-tokens"
                )
            self._changed.notify_all()
