"""Which accepted candidate to refine: the largest of draws from each one's interval, less a penalty for each child.

A point estimate of a noisy speed misranks; drawing from the interval gives every candidate the turns
that match its probability of being the fastest. Source: uncertainty-aware choice in verifier-guided search
(UVM, group Thompson sampling). The penalty for children is what keeps a beam from filling with
siblings, in the place of the visit count of a tree search.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from random import Random

from kernelagent.domain.history import History, Turn
from kernelagent.strategies.lineage import Lineage

UNSURE = 0.2
"""An estimate's ratio is known to within this share (see `kernelagent.domain.evaluation.Estimate`)."""


def draw_parent(lineage: Lineage, beam: int, penalty: float, draw: Random) -> Turn | None:
    """Draws one of the `beam` best accepted turns; each child multiplies its draw by 1 - `penalty`."""
    fastest = best_accepted(tuple(lineage.nodes.values()), beam)
    drawn = [_speed(turn, draw) * (1 - penalty) ** len(lineage.children(turn)) for turn in fastest]
    chosen = max(range(len(fastest)), key=drawn.__getitem__, default=None)
    return None if chosen is None else fastest[chosen]


def best_accepted(turns: Sequence[Turn], count: int) -> list[Turn]:
    """The `count` accepted turns of highest score, best first; equals in the order of their age."""
    accepted = (turn for turn in turns if turn.accepted)
    return nsmallest(count, accepted, key=lambda turn: (-turn.score, turn.index))


def dice(seed: int, history: History, decision: str = "parent") -> Random:
    """The randomness of one decision: the same for the same seed and number of turns."""
    return Random(f"{seed}:{len(history.turns)}:{decision}")


def _speed(turn: Turn, draw: Random) -> float:
    low, value, high = interval(turn)
    return draw.triangular(low, high, value)


def interval(turn: Turn) -> tuple[float, float, float]:
    """Low, likeliest and high of an accepted turn's speed against eager, or of its estimate."""
    timing = turn.evaluation.timing if turn.evaluation else None
    if timing is not None:
        speedup = timing.speedup_eager
        return speedup.low, speedup.value, speedup.high
    return turn.score * (1 - UNSURE), turn.score, turn.score * (1 + UNSURE)
