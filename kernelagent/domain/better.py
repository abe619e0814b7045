"""Which of two verdicts is better: decided by intervals, so that noise makes no winner.

A measurement has its interval. The intervals that estimates carry are those of each time by itself; what candidate
and eager share, such as the cost of a launch, cancels in their ratio, for which `ESTIMATE_NOISE` stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernelagent.domain.evaluation import Evaluation

ESTIMATE_NOISE = 0.2
"""Estimates that differ by less than this share cannot be told apart."""
Standing = Literal["faster", "not told apart", "slower"]


@dataclass(frozen=True)
class Span:
    """A ratio, measured or estimated, and between what it lies."""

    value: float
    low: float
    high: float


def ratio_interval(evaluation: Evaluation) -> Span | None:
    """Eager's time over the candidate's; None where nothing was timed or estimated."""
    if evaluation.timing is not None:
        result = evaluation.timing.speedup_eager
        return Span(result.value, result.low, result.high)
    if evaluation.estimate is None:
        return None
    ratio = evaluation.estimate.ratio
    return Span(ratio, ratio / (1 + ESTIMATE_NOISE), ratio * (1 + ESTIMATE_NOISE))


def better(one: Evaluation, other: Evaluation) -> bool:
    """Whether the first is better beyond doubt.

    Measured: its lower end lies higher, as the run ranks. Estimated: by more than the noise, since
    both share eager's estimate and only the candidates' own can be off. Any accepted candidate is
    better than one that is not.
    """
    if one.accepted != other.accepted:
        return one.accepted
    if one.estimate is not None and other.estimate is not None:
        return one.estimate.ratio > other.estimate.ratio * (1 + ESTIMATE_NOISE)
    if one.estimate is not None or other.estimate is not None:
        # One of them has no number at all.
        return other.estimate is None and standing(one) == "faster"
    return one.score > other.score


def standing(evaluation: Evaluation) -> Standing:
    """Against the eager module: whether the interval lies above it, around it or below."""
    if evaluation.faster:
        return "faster"
    interval = ratio_interval(evaluation)
    if interval is None:
        return "not told apart"
    if interval.high < 1.0:
        return "slower"
    if evaluation.faster is False or interval.low <= 1.0:
        return "not told apart"
    return "faster"
