"""Context management: unbounded depth in a bounded prompt, the task and the best few turns.

All turns are kept outside the prompt, which holds the task and the w turns of highest reward, in the
order they were taken (w = 4). The released code instead keeps the w consecutive turns whose summed
reward is highest. Source: "Dr. Kernel" (2602.05885), test-time scaling section, "context management".

The paper leaves ties open. Here the later turn wins them, so that before the first correct kernel the
window is the last w turns; and the best turn of all never leaves the window, whatever the clipped
reward says. Void turns are never shown: they poison what follows (SimpleTIR).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from kernelagent.domain.history import History, Turn, TurnRequest, best_of
from kernelagent.strategies.lineage import evaluated, kind_after, model_for
from kernelagent.strategies.options import at_least, one_of


@dataclass(frozen=True)
class Window:
    """One trajectory; the last turn shown is the one refined."""

    models: tuple[str, ...]
    seed: int = 0
    window: int = 4
    variant: str = "top"
    """`top`: the paper's; `consecutive`: the released code's."""
    temperature: float = 1.0

    def __post_init__(self) -> None:
        at_least(1, window=self.window)
        one_of(SHOWN, variant=self.variant)

    def next_turns(self, history: History) -> Sequence[TurnRequest]:
        model = model_for(self.models, history, 0)
        if history.pending or model is None:
            return ()
        return (self.following(history.turns, model),)

    def following(self, turns: Sequence[Turn], model: str, trajectory: int = 0) -> TurnRequest:
        """The request that goes on from the turns of one trajectory."""
        shown = SHOWN[self.variant](evaluated(turns), self.window)
        parent = shown[-1] if shown else None
        return TurnRequest(
            kind=kind_after(parent),
            model=model,
            parent=parent.index if parent else None,
            window=tuple(turn.index for turn in shown),
            trajectory=trajectory,
            temperature=self.temperature,
        )


def top_by_reward(turns: Sequence[Turn], width: int) -> list[Turn]:
    """The `width` turns of highest reward, oldest first; equal rewards go by score, then by age."""
    best = best_of(turns)
    ranked = sorted(turns, key=lambda t: (t is best, t.reward, t.score, t.index), reverse=True)
    return sorted(ranked[:width], key=lambda turn: turn.index)


def best_consecutive(turns: Sequence[Turn], width: int) -> list[Turn]:
    """The run of `width` turns with the highest summed reward; the latest of equals."""
    if len(turns) <= width:
        return list(turns)
    until = [0.0, *accumulate(turn.reward for turn in turns)]
    starts = range(len(turns) - width + 1)
    first = max(starts, key=lambda start: (round(until[start + width] - until[start], 9), start))
    return list(turns[first : first + width])


SHOWN: dict[str, Callable[[Sequence[Turn], int], list[Turn]]] = {
    "top": top_by_reward,
    "consecutive": best_consecutive,
}
