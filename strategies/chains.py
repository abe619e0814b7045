"""Chains: a few independent trajectories of refinement, each with its own window.

Neither one long line nor many single samples: at about a hundred calls a handful of trajectories of
8 to 10 turns does best (Kevin-32B, 16 × 8 against 128 × 1; "Dr. Kernel", 2602.05885, test-time
scaling section, whose window each chain uses).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.domain.history import History, Turn, TurnRequest
from kernelagent.strategies.lineage import model_for
from kernelagent.strategies.options import at_least, one_of
from kernelagent.strategies.window import SHOWN, Window


@dataclass(frozen=True)
class Chains:
    """The shortest chain goes first, so the chains are equally long wherever the budget ends."""

    models: tuple[str, ...]
    seed: int = 0
    chains: int = 4
    turns: int = 8
    """Turns a chain; a void turn is one of them."""
    window: int = 4
    variant: str = "top"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        at_least(1, chains=self.chains, turns=self.turns, window=self.window)
        one_of(SHOWN, variant=self.variant)

    def next_turns(self, history: History) -> Sequence[TurnRequest]:
        taken = self._taken(history)
        ready = (c for c in range(self.chains) if self._goes_on(taken[c]))
        requests = (
            self._following(history, taken[chain], chain)
            for chain in sorted(ready, key=lambda chain: len(taken[chain]))
        )
        return tuple(request for request in requests if request is not None)

    def _taken(self, history: History) -> list[list[Turn]]:
        taken: list[list[Turn]] = [[] for _ in range(self.chains)]
        for turn in history.turns:
            if 0 <= turn.request.trajectory < self.chains:
                taken[turn.request.trajectory].append(turn)
        return taken

    def _goes_on(self, chain: Sequence[Turn]) -> bool:
        return len(chain) < self.turns and not any(turn.pending for turn in chain)

    def _following(self, history: History, turns: Sequence[Turn], chain: int) -> TurnRequest | None:
        model = model_for(self.models, history, chain)
        if model is None:
            return None
        within = Window(self.models, self.seed, self.window, self.variant, self.temperature)
        return within.following(turns, model, chain)
