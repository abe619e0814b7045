"""The default strategy: chains until a kernel is correct, then a tree while turns bring a gain.

Independent chains find the first correct kernel, a tree improves on it, and the run ends by itself:
when the last few turns gained less than 1 %, or when so little headroom is left below the device's
limits that no turn can pay.

Sources: depth over breadth, then a tree (`chains`, `tree`); turns granted on demand instead of a fixed
limit save 12–24 % of the cost at equal success ("More with Less"); stopping by speed-of-light headroom
saves 19–43 % of the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.domain.history import History, Turn, TurnRequest
from kernelagent.strategies.chains import Chains
from kernelagent.strategies.lineage import GAIN
from kernelagent.strategies.options import a_share, at_least
from kernelagent.strategies.tree import Tree


@dataclass(frozen=True)
class Auto:
    """Chains first, tree afterwards, each with the options of the same names."""

    models: tuple[str, ...]
    seed: int = 0
    chains: int = 4
    turns: int = 8
    """Turns a chain while nothing is correct."""
    patience: int = 8
    """Turns without a gain of 1 % that are granted once a kernel is correct."""
    headroom: float = 0.05
    """The share of headroom under which the run ends; 0 never ends it."""
    window: int = 4
    beam: int = 4
    penalty: float = 0.1
    rethink_after: int = 3
    repairs: int = 1
    in_flight: int = 1
    temperature: float = 1.0

    def __post_init__(self) -> None:
        at_least(1, patience=self.patience)
        a_share(headroom=self.headroom)
        # Both check the options they are given, so a bad one is refused before the run begins.
        self._search()
        self._improvement()

    def next_turns(self, history: History) -> Sequence[TurnRequest]:
        best = history.best
        if best is None:
            free = self.in_flight - len(history.pending)
            return self._search().next_turns(history)[: max(0, free)]
        left = headroom_left(best)
        if left is not None and left < self.headroom:
            return ()
        granted = self.patience - turns_without_gain(history.turns)
        return self._improvement().next_turns(history)[: max(0, granted)]

    def _search(self) -> Chains:
        return Chains(
            self.models,
            self.seed,
            chains=self.chains,
            turns=self.turns,
            window=self.window,
            temperature=self.temperature,
        )

    def _improvement(self) -> Tree:
        return Tree(
            self.models,
            self.seed,
            beam=self.beam,
            penalty=self.penalty,
            rethink_after=self.rethink_after,
            repairs=self.repairs,
            window=self.window,
            in_flight=self.in_flight,
            temperature=self.temperature,
        )


def turns_without_gain(turns: Sequence[Turn]) -> int:
    """Turns since the last gain; gains too small to count add up, and a pending turn has none yet."""
    score, since = 0.0, 0
    for turn in turns:
        if turn.accepted and turn.score >= score * (1 + GAIN):
            score, since = turn.score, 0
        elif score:
            since += 1
    return since


def headroom_left(turn: Turn) -> float | None:
    """The share of its time a candidate could still lose, where the judge says so."""
    facts = turn.evaluation.headroom if turn.evaluation else None
    return facts.left if facts is not None else None
