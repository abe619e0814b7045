"""Advantages of turns: TRLOO (leave-one-out per turn) and GRPO, which it is compared with.

A group is all trajectories of one prompt. They may end at different turns and have turns that are
not learnt from, so it is a list of lists; nothing is padded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

Rewards = Sequence[Sequence[float]]
"""By trajectory, by turn."""
Mask = Sequence[Sequence[bool]]
"""By trajectory, by turn: True where the turn is learnt from and counted in the others' baseline."""


def returns(rewards: Sequence[float], gamma: float = 1.0) -> list[float]:
    """G_t = R_t + γ · G_{t+1}, with G past the last turn 0."""
    following = 0.0
    backwards = []
    for reward in reversed(rewards):
        following = reward + gamma * following
        backwards.append(following)
    return backwards[::-1]


def trloo(group: Rewards, *, gamma: float = 1.0, mask: Mask | None = None) -> list[list[float]]:
    """A_{i,t} = G_{i,t} − mean_{j≠i} G_{j,t}, over the N_t trajectories that have turn t.

    No division by a standard deviation. N_t = 1: A = G. A masked turn has advantage 0 and is in
    no baseline of another, but its reward still counts in the returns of the turns before it.
    Equivalent to N_t/(N_t − 1) · (G_{i,t} − mean_j G_{j,t}). (2602.05885.)
    """
    gains = [returns(rewards, gamma) for rewards in group]
    kept = _kept(group, mask)
    total, count = _sums(gains, kept)
    return [
        [
            _left_out(gain, total[t], count[t]) if kept[i][t] else 0.0
            for t, gain in enumerate(trajectory)
        ]
        for i, trajectory in enumerate(gains)
    ]


def grpo(
    group: Rewards,
    *,
    gamma: float = 1.0,
    mask: Mask | None = None,
    by_std: bool = True,
    epsilon: float = 1e-6,
) -> list[list[float]]:
    """A_{i,t} = (G_{i,t} − mean_j G_{j,t}) / (std_j G_{j,t} + ε), the mean including i itself.

    `by_std` False leaves the division out; then E[g] = (1 − 1/N) ∇J for groups of N, because each
    baseline contains the very return it is subtracted from. std is the sample's (N − 1); N_t = 1
    gives 0 here; TRLOO gives G.
    """
    gains = [returns(rewards, gamma) for rewards in group]
    kept = _kept(group, mask)
    total, count = _sums(gains, kept)
    spread = [
        _std([g[t] for g, k in zip(gains, kept, strict=True) if t < len(g) and k[t]])
        for t in range(len(total))
    ]
    return [
        [
            (gain - total[t] / count[t]) / (spread[t] + epsilon if by_std else 1.0)
            if kept[i][t]
            else 0.0
            for t, gain in enumerate(trajectory)
        ]
        for i, trajectory in enumerate(gains)
    ]


Estimator = Literal["trloo", "grpo"]
ESTIMATORS: Mapping[Estimator, Callable[..., list[list[float]]]] = MappingProxyType(
    {"trloo": trloo, "grpo": grpo}
)
"""By name; each takes a group, `gamma` and `mask`."""


def _left_out(gain: float, total: float, count: int) -> float:
    return gain if count == 1 else gain - (total - gain) / (count - 1)


def _kept(group: Rewards, mask: Mask | None) -> list[list[bool]]:
    if mask is None:
        return [[True] * len(rewards) for rewards in group]
    if [len(row) for row in mask] != [len(row) for row in group]:
        raise ValueError("a mask must have one entry for each turn of each trajectory")
    return [list(row) for row in mask]


def _sums(gains: Rewards, kept: Mask) -> tuple[list[float], list[int]]:
    """By turn: the sum of the returns that count there, and how many they are."""
    turns = max(map(len, gains), default=0)
    there = [
        [g[t] for g, k in zip(gains, kept, strict=True) if t < len(g) and k[t]]
        for t in range(turns)
    ]
    return [math.fsum(row) for row in there], [len(row) for row in there]


def _std(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
