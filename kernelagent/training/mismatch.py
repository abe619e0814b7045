"""Mismatch rejection sampling (MRS): what trainer and rollout engine disagree on is not learnt from.

The two compute log-probabilities of the same tokens with different kernels; their ratio is the
importance weight without a correction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

LOWER, UPPER = 0.999, 1.001
VETO = 1e-4


@dataclass(frozen=True)
class Bounds:
    """When a trajectory is kept (2602.05885)."""

    lower: float = LOWER
    upper: float = UPPER
    veto: float = VETO
    """No token's ratio may be below this."""


def geometric_ratio(trainer: Sequence[float], rollout: Sequence[float]) -> float:
    """ρ = exp( (1/T) Σ_t (log π_trainer,t − log π_rollout,t) ), over all T tokens; 1 for none.

    Both: natural-log probabilities, token by token. Raises ValueError when they differ in length.
    """
    apart = _log_ratios(trainer, rollout)
    return math.exp(math.fsum(apart) / len(apart)) if apart else 1.0


def keep_sequence(
    trainer: Sequence[float], rollout: Sequence[float], bounds: Bounds = Bounds()
) -> bool:
    """True iff lower ≤ ρ ≤ upper and min_t π_trainer,t/π_rollout,t ≥ veto."""
    apart = _log_ratios(trainer, rollout)
    if any(ratio < math.log(bounds.veto) for ratio in apart):
        return False
    return bounds.lower <= geometric_ratio(trainer, rollout) <= bounds.upper


def keep_turns(
    trainer: Sequence[Sequence[float]],
    rollout: Sequence[Sequence[float]],
    bounds: Bounds = Bounds(),
) -> list[bool]:
    """Each turn by its own tokens: the geometric mean per turn, and the veto per turn."""
    return [keep_sequence(t, r, bounds) for t, r in zip(trainer, rollout, strict=True)]


def keep_trajectory(
    trainer: Sequence[Sequence[float]],
    rollout: Sequence[Sequence[float]],
    bounds: Bounds = Bounds(),
) -> bool:
    """All turns together, one geometric mean over all tokens; one vetoed token drops them all."""
    if [len(turn) for turn in trainer] != [len(turn) for turn in rollout]:
        raise ValueError("trainer and rollout must have the same tokens in every turn")
    return keep_sequence([*chain(*trainer)], [*chain(*rollout)], bounds)


def _log_ratios(trainer: Sequence[float], rollout: Sequence[float]) -> list[float]:
    if len(trainer) != len(rollout):
        raise ValueError(f"{len(trainer)} tokens of the trainer, {len(rollout)} of the rollout")
    return [t - r for t, r in zip(trainer, rollout, strict=True)]
