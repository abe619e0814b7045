"""The dual-clip policy loss, token by token, and the ways of adding it up.

Dual clip: Ye et al., 1912.09729; asymmetric bounds: DAPO, 2503.14476.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Aggregation = Literal[
    "token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-sum-over-longest"
]


@dataclass(frozen=True)
class Clip:
    """The ratio is trusted in [1 − low, 1 + high]; for A < 0 the loss stops growing at c·|A|."""

    low: float = 0.2
    high: float = 0.2
    c: float = 3.0

    def __post_init__(self) -> None:
        if not (0 <= self.low < 1 and self.high >= 0 and self.c > 1):
            raise ValueError("clip bounds need 0 ≤ low < 1, high ≥ 0 and c > 1")


def token_loss(new: float, old: float, advantage: float, clip: Clip = Clip()) -> float:
    """With r = exp(new − old), and `new`, `old` natural-log probabilities of one token:

    L = max(−A·r, −A·clip(r, 1 − low, 1 + high)), and for A < 0 at most −A·c.
    """
    ratio = math.exp(min(20.0, max(-20.0, new - old)))
    trusted = min(1.0 + clip.high, max(1.0 - clip.low, ratio))
    loss = max(-advantage * ratio, -advantage * trusted)
    return min(loss, -advantage * clip.c) if advantage < 0 else loss


def policy_loss(
    new: Sequence[Sequence[float]],
    old: Sequence[Sequence[float]],
    advantages: Sequence[Sequence[float]],
    mask: Sequence[Sequence[bool]],
    *,
    clip: Clip = Clip(),
    aggregation: Aggregation = "token-mean",
) -> float:
    """`token_loss` of every unmasked token, added up; each argument by sequence, by token.

    With T_s unmasked tokens in sequence s, and S sequences that have any:
    token-mean Σ_s Σ_t L / Σ_s T_s; seq-mean-token-sum (1/S) Σ_s Σ_t L; seq-mean-token-mean
    (1/S) Σ_s (1/T_s) Σ_t L; seq-sum-over-longest Σ_s Σ_t L / max_s (length of s, masked or not).
    0 when every token is masked. Raises ValueError when the arguments differ in length.
    """
    losses = [
        [token_loss(n, o, a, clip) for n, o, a, kept in zip(ns, os, as_, ks, strict=True) if kept]
        for ns, os, as_, ks in zip(new, old, advantages, mask, strict=True)
    ]
    return _added([row for row in losses if row], max(map(len, mask), default=0), aggregation)


def _added(losses: list[list[float]], longest: int, aggregation: Aggregation) -> float:
    if not losses:
        return 0.0
    sums = [math.fsum(row) for row in losses]
    match aggregation:
        case "token-mean":
            return math.fsum(sums) / sum(map(len, losses))
        case "seq-mean-token-sum":
            return math.fsum(sums) / len(sums)
        case "seq-mean-token-mean":
            means = [total / len(row) for total, row in zip(sums, losses, strict=True)]
            return math.fsum(means) / len(means)
        case "seq-sum-over-longest":
            return math.fsum(sums) / longest
