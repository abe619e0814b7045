"""What a run has come to so far; every event of its loop goes through here on its way to the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from threading import RLock

from kernelagent.domain.configuration.budget import Budget, Spent
from kernelagent.domain.events import Event, RunResumed
from kernelagent.domain.history import History, Message
from kernelagent.storage.run_state import RunState, Unfinished, to_continue
from kernelagent.storage.steering import Steering


@dataclass(frozen=True)
class Earlier:
    """What an interrupted part of a run left; a new run has none of it."""

    state: RunState = field(default_factory=RunState)
    """Folded from the log; its history is that of the turns with an outcome."""
    unfinished: Sequence[Unfinished] = ()
    """Turns without an outcome, in order: a resumed run finishes them before it asks for new ones."""
    kept_prompt: Callable[[int], tuple[Message, ...] | None] = lambda _: None

    @classmethod
    def of(
        cls, state: RunState, kept_prompt: Callable[[int], tuple[Message, ...] | None]
    ) -> Earlier:
        """What a log of that state leaves to a run that goes on."""
        history, unfinished = to_continue(state)
        steering = state.steering.after(RunResumed())
        return cls(replace(state, history=history, steering=steering), unfinished, kept_prompt)


@dataclass
class LoopState:
    """The folds over the loop's own events, kept up to date as they are published."""

    log: Callable[[Event], None]
    history: History
    spent: Spent
    steering: Steering
    lock: AbstractContextManager[object] = field(default_factory=RLock)
    """Replies arrive in several threads; the log has one writer at a time."""

    @classmethod
    def after(cls, earlier: Earlier, log: Callable[[Event], None]) -> LoopState:
        """Where the loop begins."""
        state = earlier.state
        return cls(log, state.history, state.spent, state.steering)

    def publish(self, event: Event) -> None:
        with self.lock:
            self.spent = self.spent.after(event)
            self.steering = self.steering.after(event)
            self.log(event)

    def limits(self, budget: Budget) -> Budget:
        """The budget with what the user has added since the run began."""
        return self.steering.raised(budget)
