"""State that a module reaches by itself: after some forwards a counter, a cache or an average is not what it began as."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

import torch

from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.oracle import Oracle

Weights = Mapping[str, torch.Tensor]
FORWARDS_IN = {1: (2, 8), 2: (33, 160), 4: (9, 32)}
"""By round: fewest and most forwards that have gone before. A few, and more than caches have places."""
_LEFT = 3
"""So many more the reference must take: a round's calls go on from there."""
_SECONDS = 0.5


def reached(
    oracle: Oracle, weights: Weights, drawn: Sequence[Arguments], number: int
) -> tuple[Weights, int]:
    """The state after a random number of the reference's forwards, and how many; none where it refuses.

    Takes what it comes to in half a second. The oracle's weights in use are left as they were.
    """
    bounds = FORWARDS_IN.get(number)
    if bounds is None or not drawn:
        return weights, 0
    wanted = random.SystemRandom().randint(*bounds)
    kept = oracle.weights
    try:
        state, count = _after(oracle, weights, drawn, wanted + _LEFT)
        # As far as that it refuses nothing; where it stopped, from further back.
        back = min(wanted, count - _LEFT)
        if back < 1:
            return weights, 0
        state, count = _after(oracle, weights, drawn, back)
        return (state, count) if count == back else (weights, 0)
    finally:
        oracle.use_weights(kept)


def _after(
    oracle: Oracle, weights: Weights, drawn: Sequence[Arguments], most: int
) -> tuple[Weights, int]:
    """State after at most so many forwards: fewer where one fails, leaves no number, or time is up."""
    state, end = weights, time.monotonic() + _SECONDS
    for count in range(most):
        oracle.use_weights(state)
        try:
            after = oracle.state_after(drawn[count % len(drawn)])
        except Exception:  # noqa: BLE001 - the user's module may refuse a state in any way
            return state, count
        if not _finite(after) or time.monotonic() > end:
            return state, count
        state = after
    return state, most


def _finite(state: Weights) -> bool:
    return all(
        bool(t.isfinite().all())
        for t in state.values()
        if t.dtype.is_floating_point and t.element_size() > 1
    )
