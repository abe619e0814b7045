"""Vanilla multi-turn refinement: each turn answers the last one's feedback, with the full history.

Source: "Dr. Kernel" (2602.05885), test-time scaling section, "vanilla extrapolation".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.history import History, RequestKind, Turn, TurnRequest


@dataclass(frozen=True)
class Sequential:
    """One trajectory; it ends when its model has nothing left to say or the budget ends it."""

    models: tuple[str, ...]
    seed: int = 0
    temperature: float = 1.0

    def next_turns(self, history: History) -> Sequence[TurnRequest]:
        model = self.models[0]
        if history.pending or model in history.exhausted:
            return ()
        spoken = [turn for turn in history.turns if turn.void is None]
        last = spoken[-1] if spoken else None
        return (
            TurnRequest(
                kind=kind_after(last),
                model=model,
                parent=last.index if last else None,
                window=tuple(turn.index for turn in history.turns),
                temperature=self.temperature,
            ),
        )


def kind_after(parent: Turn | None) -> RequestKind:
    """What to ask for, given the turn that is refined."""
    if parent is None:
        return "write"
    return "optimise" if parent.accepted else "repair"
