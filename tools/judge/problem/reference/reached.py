"""State that a module reaches by itself: after some forwards a counter, a cache or an average is not what it began as."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

import torch
from torch.utils._pytree import tree_map

from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.input_domain import observe

Weights = Mapping[str, torch.Tensor]
FORWARDS_IN = {1: (2, 8), 2: (48, 160), 4: (9, 32)}
"""By round: fewest and most forwards that have gone before. A few, and more than caches have places."""
_QUIET_IN = 2
"""In this round inputs become a thousandth as large after a few forwards: what decays has come down."""
_LOUD = (1, 8)
"""Fewest and most forwards before that."""
_QUIET = 1e-3
_LEFT = 3
"""So many more the reference must take: a round's calls go on from there."""
_SECONDS = 0.5
"""Of this thread's own time, so that a busy machine does not look at younger states; by the clock four times as long."""
_BY_THE_CLOCK = 4


def reached(
    oracle: Oracle, weights: Weights, drawn: Sequence[Arguments], number: int
) -> tuple[Weights, int]:
    """The state after a random number of the reference's forwards, and how many; none where it refuses.

    Takes what it comes to in half a second of its own time; in one round the last of them are of quiet inputs, if it takes
    those. The oracle's weights in use are left as they were.
    """
    bounds = FORWARDS_IN.get(number)
    if bounds is None or not drawn:
        return weights, 0
    chance = random.SystemRandom()
    wanted = chance.randint(*bounds)
    natural = [drawn[at % len(drawn)] for at in range(wanted + _LEFT)]
    tried = [natural]
    if number == _QUIET_IN:
        loud = chance.randint(*_LOUD)
        tried.insert(0, [*natural[:loud], *map(_quiet, natural[loud:])])
    kept = oracle.weights
    try:
        for calls in tried:
            state, count = _back_from(oracle, weights, calls)
            if count:
                return state, count
        return weights, 0
    finally:
        oracle.use_weights(kept)


def _back_from(oracle: Oracle, weights: Weights, calls: Sequence[Arguments]) -> tuple[Weights, int]:
    """As far as that it refuses nothing; where it stopped, from further back."""
    _, count = _after(oracle, weights, calls)
    back = count - _LEFT
    if back < 1:
        return weights, 0
    state, count = _after(oracle, weights, calls[:back])
    return (state, count) if count == back else (weights, 0)


def _quiet(arguments: Arguments) -> Arguments:
    """A thousandth as large, but for masks, bounded numbers and what else is no free value."""

    def quiet(value: object) -> object:
        if not isinstance(value, torch.Tensor) or not is_inexact(value):
            return value
        if observe(value).kind != "real":
            return value
        return (value.detach() * _QUIET).requires_grad_(value.requires_grad)

    args, kwargs = tree_map(quiet, arguments)
    return args, kwargs


def _after(oracle: Oracle, weights: Weights, calls: Sequence[Arguments]) -> tuple[Weights, int]:
    """State after these forwards, or fewer where one fails, leaves no number, or time is up."""
    state = weights
    worked, ends = time.thread_time() + _SECONDS, time.monotonic() + _BY_THE_CLOCK * _SECONDS
    for count, arguments in enumerate(calls):
        oracle.use_weights(state)
        try:
            after = oracle.state_after(arguments)
        except Exception:  # noqa: BLE001 - the user's module may refuse a state in any way
            return state, count
        late = time.thread_time() > worked or time.monotonic() > ends
        if late or not _finite(after):
            return state, count
        state = after
    return state, len(calls)


def _finite(state: Weights) -> bool:
    return all(
        bool(t.isfinite().all()) for t in state.values() if is_inexact(t) and t.element_size() > 1
    )
