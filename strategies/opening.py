"""The built-in policy opens for the other models of a run: they go on from what it has found.

A kernel that is right already saves a writer the turns until its first one, and the policy's are known in seconds and
cost nothing. After its first accepted kernel, or the few turns that it may take, the others are asked alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelagent.domain.history import History, TurnRequest
from kernelagent.strategies.sequential import Sequential

if TYPE_CHECKING:
    from kernelagent.strategies import Strategy


@dataclass(frozen=True)
class Opening:
    """Asks `opener` first, then whatever `then` asks of the others."""

    opener: str
    then: Strategy
    turns: int = 3
    """The most that the opener takes while nothing of its is accepted."""

    def next_turns(self, history: History) -> Sequence[TurnRequest]:
        if self._over(history):
            return self.then.next_turns(history)
        return Sequential((self.opener,)).next_turns(history)

    def _over(self, history: History) -> bool:
        own = [turn for turn in history.turns if turn.request.model == self.opener]
        return (
            self.opener in history.exhausted
            or len(own) < len(history.turns)
            or any(turn.accepted for turn in own)
            or (len(own) >= self.turns and not own[-1].pending)
        )
