"""Evaluation to reward, as Dr. Kernel defines it: correctness, clipped speedup, profiled coverage.

Source: "Dr. Kernel: Reinforcement Learning Done Right for Triton Kernel Generations" (2602.05885),
R = C + min(speedup, 3) + PR, each gated on correctness; PR = device time in the candidate's own
kernels over all device time.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelagent.domain.evaluation import Evaluation


@dataclass(frozen=True)
class RewardWeights:
    """The paper's weighting; its released code uses 0.5 for each of the last two."""

    correctness: float = 1.0
    speedup: float = 1.0
    coverage: float = 1.0
    speedup_clip: float = 3.0


def reward(evaluation: Evaluation, weights: RewardWeights = RewardWeights()) -> float:
    """0 unless accepted; on `virtual` there is no speedup term, because nothing was timed."""
    if not evaluation.accepted:
        return 0.0
    speedup = evaluation.timing.speedup_eager.value if evaluation.timing else 0.0
    return (
        weights.correctness
        + weights.speedup * min(speedup, weights.speedup_clip)
        + weights.coverage * coverage(evaluation)
    )


def coverage(evaluation: Evaluation) -> float:
    """Share of device time in the candidate's own Triton kernels, 0 where unknown."""
    shares = [kernel.share_of_device_time or 0.0 for kernel in evaluation.kernels]
    return min(1.0, sum(shares))
