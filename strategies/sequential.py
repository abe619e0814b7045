"""Vanilla multi-turn refinement: each turn answers the last one's feedback, with the full history.

Void turns are no part of it: they poison what follows (SimpleTIR), and leave the window at once.
Source: "Dr. Kernel" (2602.05885), test-time scaling section, "vanilla extrapolation".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.domain.history import History, TurnRequest
from kernelagent.strategies.lineage import evaluated, kind_after, model_for


@dataclass(frozen=True)
class Sequential:
    """One trajectory; it ends when no model has anything left to say or the budget ends it."""

    models: tuple[str, ...]
    seed: int = 0
    temperature: float = 1.0

    def next_turns(self, history: History) -> Sequence[TurnRequest]:
        model = model_for(self.models, history, 0)
        if history.pending or model is None:
            return ()
        spoken = evaluated(history.turns)
        last = spoken[-1] if spoken else None
        return (
            TurnRequest(
                kind=kind_after(last),
                model=model,
                parent=last.index if last else None,
                window=tuple(turn.index for turn in spoken),
                temperature=self.temperature,
            ),
        )
