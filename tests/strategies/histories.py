"""Histories for tests of the strategies: verdicts by hand, and a caller that plays a strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import (
    DeviceFacts,
    Evaluation,
    HeadroomFacts,
    Interval,
    KernelFacts,
    Timing,
)
from kernelagent.domain.history import History, RequestKind, Turn, TurnRequest
from kernelagent.domain.rewards import reward
from kernelagent.prompts.feedback import feedback_for
from kernelagent.strategies import Strategy
from tests.evaluations import accepted, rejected, reply_with

CUDA = DeviceFacts("cuda", "H200", "sm_90", "2.13.0", "3.9.0")
Outcome = Evaluation | None
"""What becomes of a turn; None: its reply was void."""


def timed(
    value: float, low: float = 0.0, high: float = 0.0, bound: str = "dram", covered: float = 0.9
) -> Evaluation:
    """An acceptance on cuda; without an interval it is 5 % wide on either side."""
    interval = Interval(value, low or value * 0.95, high or value * 1.05)
    kernel = KernelFacts("norm", 1, share_of_device_time=covered, bound=bound)
    return Evaluation("accepted", CUDA, timing=Timing(10 / value, 10, interval), kernels=(kernel,))


def finished(index: int, request: TurnRequest, outcome: Outcome) -> Turn:
    """The turn a session makes of a request whose reply came to `outcome`."""
    reply = reply_with(index)
    if outcome is None:
        return Turn(index, request, reply, feedback="Nothing was evaluated.", void="no code")
    return Turn(
        index,
        request,
        reply,
        candidate=Candidate(f"number = {index}"),
        evaluation=outcome,
        feedback=feedback_for(outcome),
        reward=reward(outcome),
    )


def line(*outcomes: Outcome) -> History:
    """One trajectory, each turn asked of the last one that was evaluated."""
    history, parent = History(), None
    for index, outcome in enumerate(outcomes):
        request = TurnRequest("optimise" if parent is not None else "write", "a", parent)
        history = history.with_turn(finished(index, request, outcome))
        parent = index if outcome is not None else parent
    return history


def child(
    history: History,
    parent: int,
    outcome: Outcome,
    kind: RequestKind = "optimise",
    model: str = "a",
    trajectory: int = 0,
) -> History:
    """The history with one more finished turn, asked of `parent`."""
    request = TurnRequest(kind, model, parent, (parent,), trajectory)
    return history.with_turn(finished(len(history.turns), request, outcome))


def pending(history: History, parent: int, trajectory: int = 0) -> History:
    """The history with one more turn that is waiting for its reply."""
    request = TurnRequest("optimise", "a", parent, (parent,), trajectory)
    return history.with_turn(Turn(len(history.turns), request))


def play(
    strategy: Strategy,
    outcome_of: Callable[[int, TurnRequest], Outcome],
    turns: int,
    one_at_a_time: bool = False,
) -> History:
    """Take requests one after another, as the session does, until the strategy stops."""
    history = History()
    while requests := strategy.next_turns(history):
        for request in requests[:1] if one_at_a_time else requests:
            if len(history.turns) == turns:
                return history
            index = len(history.turns)
            history = history.with_turn(finished(index, request, outcome_of(index, request)))
    return history


@dataclass
class Caller:
    """A caller with several turns in flight, which come back in any order."""

    strategy: Strategy
    history: History = field(default_factory=History)

    def ask(self) -> Sequence[TurnRequest]:
        requests = self.strategy.next_turns(self.history)
        for request in requests:
            self.history = self.history.with_turn(Turn(len(self.history.turns), request))
        return requests

    def finish(self, which: int, outcome: Outcome) -> None:
        waiting = self.history.pending
        if waiting:
            turn = waiting[which % len(waiting)]
            self.history = self.history.with_turn(finished(turn.index, turn.request, outcome))

    def exhaust(self, model: str) -> None:
        self.history = self.history.with_exhausted(model)


def with_headroom(evaluation: Evaluation, left: float) -> Evaluation:
    facts = HeadroomFacts("default", 1 << 20, {}, 10.0, "dram", 1 - left, left)
    return replace(evaluation, headroom=facts)


__all__ = ["accepted", "rejected"]
