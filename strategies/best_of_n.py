"""Best of n: independent samples of the first turn, none of which sees another.

The baseline every refinement has to beat at an equal budget: with up to a hundred calls depth wins
over breadth (Kevin-32B: 16 trajectories of 8 turns reach 1.10×, 128 single samples 0.65×).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.domain.history import History, TurnRequest
from kernelagent.strategies.lineage import model_for, side_by_side
from kernelagent.strategies.options import at_least


@dataclass(frozen=True)
class BestOfN:
    """Each sample is a separate trajectory; the models take turns."""

    models: tuple[str, ...]
    seed: int = 0
    n: int | None = None
    """Samples in all; left out, sampling goes on until the budget ends it."""
    in_flight: int = 4
    temperature: float = 1.0

    def __post_init__(self) -> None:
        at_least(1, n=self.n, in_flight=self.in_flight)

    def next_turns(self, history: History) -> Sequence[TurnRequest]:
        return side_by_side(history, self.in_flight, self._sample)

    def _sample(self, history: History) -> TurnRequest | None:
        taken = len(history.turns)
        model = model_for(self.models, history, taken)
        if model is None or (self.n is not None and taken >= self.n):
            return None
        return TurnRequest("write", model, trajectory=taken, temperature=self.temperature)
