"""What happened so far in a run: an append-only tuple of turns, and what can be asked of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from kernelagent.domain.better import better
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import Evaluation

RequestKind = Literal["write", "repair", "optimise", "rethink"]
Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Message:
    """One chat message."""

    role: Role
    content: str


@dataclass(frozen=True)
class Recalled:
    """A lesson as it stood in a turn's prompt; later changes of the library do not change it."""

    lesson: str
    """Its id in the library."""
    words: str


@dataclass(frozen=True)
class TurnRequest:
    """What a strategy asks for next; the controller renders the prompt from it."""

    kind: RequestKind
    model: str
    parent: int | None = None
    """The turn whose candidate is refined; None: start afresh."""
    window: tuple[int, ...] = ()
    """The earlier turns shown to the model, oldest first."""
    trajectory: int = 0
    temperature: float | None = None
    recalled: tuple[Recalled, ...] = ()
    """Put in by the controller, where the run has a memory; strategies leave it empty."""


@dataclass(frozen=True)
class Turn:
    """One request and what became of it; without `evaluation` it is pending or void."""

    index: int
    request: TurnRequest
    reply: str | None = None
    finish: str = "stop"
    """How the reply ended, as in `ReplyReceived`."""
    arrived: str = ""
    """What has come of a reply that is still arriving, or whose end was lost with the program."""
    candidate: Candidate | None = None
    evaluation: Evaluation | None = None
    feedback: str = ""
    reward: float = 0.0
    void: str | None = None
    """Why the reply held nothing to evaluate."""

    @cached_property
    def pending(self) -> bool:
        return self.evaluation is None and self.void is None

    @cached_property
    def accepted(self) -> bool:
        return self.evaluation is not None and self.evaluation.accepted

    @cached_property
    def score(self) -> float:
        return self.evaluation.score if self.evaluation is not None else 0.0


@dataclass(frozen=True)
class History:
    """All turns in the order they were asked for."""

    turns: tuple[Turn, ...] = ()
    exhausted: frozenset[str] = frozenset()
    """Models that said they have nothing left to try."""

    def with_turn(self, turn: Turn) -> History:
        """This history with `turn` added, or put in the place of the turn of the same index."""
        at = bisect_left(self.turns, turn.index, key=lambda other: other.index)
        there = at < len(self.turns) and self.turns[at].index == turn.index
        return replace(self, turns=(*self.turns[:at], turn, *self.turns[at + there :]))

    def without(self, index: int) -> History:
        """This history without the turn of that number."""
        return replace(self, turns=tuple(turn for turn in self.turns if turn.index != index))

    def with_exhausted(self, model: str) -> History:
        return replace(self, exhausted=self.exhausted | {model})

    def turn(self, index: int) -> Turn:
        """The turn of that number; raises KeyError."""
        at = bisect_left(self.turns, index, key=lambda turn: turn.index)
        if at == len(self.turns) or self.turns[at].index != index:
            raise KeyError(index)
        return self.turns[at]

    @property
    def next_index(self) -> int:
        """The number of the next turn; a turn that was asked in vain leaves a gap."""
        return self.turns[-1].index + 1 if self.turns else 0

    @property
    def finished(self) -> tuple[Turn, ...]:
        return tuple(turn for turn in self.turns if not turn.pending)

    @property
    def pending(self) -> tuple[Turn, ...]:
        return tuple(turn for turn in self.turns if turn.pending)

    @cached_property
    def best(self) -> Turn | None:
        """The best accepted turn of all, never simply the last; what cannot be told apart goes to
        the earlier one."""
        return best_of(self.turns)


def best_of(turns: Iterable[Turn]) -> Turn | None:
    """The best of the accepted; a later one only where it is better beyond doubt (`better`)."""
    best: Turn | None = None
    for turn in sorted((turn for turn in turns if turn.accepted), key=lambda turn: turn.index):
        assert turn.evaluation is not None
        if best is None or (
            best.evaluation is not None and better(turn.evaluation, best.evaluation)
        ):
            best = turn
    return best
