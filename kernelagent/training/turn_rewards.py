"""What one turn is worth (PR), and with which probability it is learnt from (PRS)."""

from __future__ import annotations

from dataclasses import dataclass

from kernelagent.domain.rewards import RewardWeights

PAPER = RewardWeights(correctness=1.0, speedup=1.0, coverage=1.0, speedup_clip=3.0)
"""R = C + min(speedup, 3) + PR, as the paper writes it."""
RELEASE = RewardWeights(correctness=1.0, speedup=0.5, coverage=0.5, speedup_clip=3.0)
"""R = C + 0.5·min(speedup, 3) + 0.5·PR, as its released code weighs it."""


@dataclass(frozen=True)
class Outcome:
    """What the judge found out about one turn, as far as a reward needs it."""

    correct: bool
    """Accepted: right, and by its own kernels."""
    coverage: float = 0.0
    """PR = T_generated / T_total, device time in the turn's own kernels over all, 0 to 1."""
    speedup: float | None = None
    """Measured, against eager; None where nothing was timed."""


def profiling_share(generated_us: float, total_us: float) -> float:
    """PR = T_generated / T_total, both device time in the same unit; 0 where nothing ran.

    Raises ValueError on a time that cannot be: negative, or a part above its whole.
    """
    if generated_us < 0 or total_us < 0 or generated_us > total_us:
        raise ValueError(f"{generated_us} µs of {total_us} µs is no share of device time")
    return generated_us / total_us if total_us > 0 else 0.0


def pr_reward(outcome: Outcome, weights: RewardWeights = PAPER) -> float:
    """R = 1[correct] · (w_C + w_S · min(speedup, clip) + w_PR · PR).

    Where nothing was timed the speedup term is absent, never guessed. (2602.05885, eq. of PR.)
    """
    if not outcome.correct:
        return 0.0
    speedup = 0.0 if outcome.speedup is None else min(outcome.speedup, weights.speedup_clip)
    return weights.correctness + weights.speedup * speedup + weights.coverage * outcome.coverage


def keep_probability(outcome: Outcome, *, threshold: float = 0.3, width: float = 0.1) -> float:
    """p = clip((PR − threshold) / width, 0, 1) for a correct turn; 1 for any other.

    Failed turns are kept: PRS only masks correct turns of low PR. `width` 0 is a step at `threshold`.
    """
    if not outcome.correct:
        return 1.0
    if width == 0.0:
        return 1.0 if outcome.coverage > threshold else 0.0
    return min(1.0, max(0.0, (outcome.coverage - threshold) / width))
