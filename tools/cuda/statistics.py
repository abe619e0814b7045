"""From paired time ratios to a median with an interval; pure Python, deterministic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from kernelagent.domain.evaluation import Interval
from kernelagent.tools.cuda.sequence import bounds_of


def interval_of(ratios: Sequence[float]) -> Interval:
    """Median of independent ratios with a 95 % interval that holds under optional stopping.

    Raises ValueError on fewer than six ratios and on one that is not finite and positive. Ratios of
    blocks measured by one process are correlated: over them the interval says nothing about the
    next process, and a certificate asks `certificate.certify` instead.
    """
    if any(not math.isfinite(ratio) or ratio <= 0 for ratio in ratios):
        raise ValueError("a ratio of times is finite and positive")
    low, high = bounds_of(ratios)
    # The middle of two ratios is their geometric mean, so that swapping sides inverts it.
    middle = math.exp(median(map(math.log, ratios)))
    return Interval(min(max(middle, low), high), low, high)


def narrow_enough(interval: Interval, share: float) -> bool:
    """True when the interval reaches at most `share` of the value to either side."""
    reach = max(interval.high - interval.value, interval.value - interval.low)
    return reach <= share * interval.value


def is_faster(interval: Interval) -> bool:
    """True when even the lower end of the speedup is above 1."""
    return interval.low > 1.0


def geometric_mean(intervals: Sequence[Interval]) -> Interval:
    """Of value, low and high over input sets, for sets that were not measured together.

    Wider than need be where the sets' errors are independent; `certificate.certify` measures all
    sets in each launch and takes the mean there.
    """
    return Interval(
        mean_ratio([i.value for i in intervals]),
        mean_ratio([i.low for i in intervals]),
        mean_ratio([i.high for i in intervals]),
    )


def mean_ratio(ratios: Sequence[float]) -> float:
    """The geometric mean; exactly the same in whatever order the ratios come."""
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
