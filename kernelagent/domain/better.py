"""Which of two verdicts is better: decided by intervals, so that noise makes no winner.

A measurement has its interval, and so has an estimated ratio (`tools/estimates/ratios.py`): what candidate and eager
share, such as the cost of a launch, cancels in it, so that it is narrower than those of the two times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernelagent.domain.evaluation import Estimate, Evaluation

_OF_OLDER_RECORDS = 0.2
"""Half the width of a ratio's interval in records that carry none."""
Standing = Literal["faster", "not told apart", "slower"]


@dataclass(frozen=True)
class Span:
    """A measured or estimated ratio with the bounds of its interval."""

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
    estimated = evaluation.estimate.speedup
    if estimated is not None:
        return Span(estimated.value, estimated.low, estimated.high)
    ratio = evaluation.estimate.ratio
    return Span(ratio, ratio / (1 + _OF_OLDER_RECORDS), ratio * (1 + _OF_OLDER_RECORDS))


def better(evaluation: Evaluation, other: Evaluation) -> bool:
    """Whether the first is better beyond doubt.

    Measured: the lower end of its speedup's interval is above the other's, as in the run's ranking. Estimated: the
    lower end of its interval is above the other's ratio; that one's upper end is not used, because both ratios share
    eager's estimate and so its error. Any accepted candidate is better than one that is not.
    """
    if evaluation.accepted != other.accepted:
        return evaluation.accepted
    if evaluation.estimate is not None and other.estimate is not None:
        first, second = ratio_interval(evaluation), ratio_interval(other)
        assert first is not None
        assert second is not None
        return first.low > second.value
    if evaluation.estimate is not None or other.estimate is not None:
        # One of them has no number at all.
        return other.estimate is None and standing(evaluation) == "faster"
    return evaluation.score > other.score


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


def perhaps_behind(estimate: Estimate) -> str | None:
    """A warning where the estimates do not tell that the candidate is faster than torch.compile; None where they do."""
    ratio = estimate.speedup_compile
    if ratio is None or ratio.low > 1:
        return None
    if ratio.value > 1:
        return "torch.compile may be faster"
    return "torch.compile is likely as fast, or faster"
