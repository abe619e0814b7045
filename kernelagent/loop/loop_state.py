"""What a run has come to so far; every event of its loop goes through here on its way to the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import RLock

from kernelagent.domain.budget import Budget, Spent
from kernelagent.domain.events import Event
from kernelagent.domain.history import History, Message
from kernelagent.storage.run_state import Unfinished
from kernelagent.storage.steering import Steering


@dataclass(frozen=True)
class Earlier:
    """What an interrupted part of a run left; a new run has none of it."""

    history: History = field(default_factory=History)
    spent: Spent = field(default_factory=Spent)
    steering: Steering = field(default_factory=Steering)
    elapsed_s: float = 0.0
    unfinished: Sequence[Unfinished] = ()
    """Turns without an outcome, in their order: finished first."""
    kept_prompt: Callable[[int], tuple[Message, ...] | None] = lambda _: None


@dataclass
class LoopState:
    """The folds over the loop's own events, kept up to date as they are published."""

    log: Callable[[Event], None]
    history: History
    spent: Spent
    steering: Steering
    lock: AbstractContextManager[object] = field(default_factory=RLock)
    """Replies arrive in several threads; the log has one writer at a time."""

    def publish(self, event: Event) -> None:
        with self.lock:
            self.spent = self.spent.after(event)
            self.steering = self.steering.after(event)
            self.log(event)

    def limits(self, budget: Budget) -> Budget:
        """The budget with what the user has added since the run began."""
        return self.steering.raised(budget)
