"""From paired time ratios to a median with an interval; pure Python, deterministic."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import median

from kernelagent.evaluation import Interval

_RESAMPLES = 2000
_TAIL = 0.025


def interval_of(ratios: Sequence[float]) -> Interval:
    """Median of the ratios with a bootstrap 95 % interval; needs at least three finite, positive ratios."""
    if len(ratios) < 3 or any(not math.isfinite(r) or r <= 0 for r in ratios):
        raise ValueError("an interval needs at least three finite, positive ratios")
    chance = random.Random(0)
    middles = sorted(median(chance.choices(ratios, k=len(ratios))) for _ in range(_RESAMPLES))
    low = middles[int(_TAIL * _RESAMPLES)]
    high = middles[int((1 - _TAIL) * _RESAMPLES) - 1]
    return Interval(median(ratios), low, high)


def narrow_enough(interval: Interval, share: float) -> bool:
    """True when the interval reaches at most `share` of the value to either side."""
    reach = max(interval.high - interval.value, interval.value - interval.low)
    return reach <= share * interval.value


def geometric_mean(intervals: Sequence[Interval]) -> Interval:
    """Of value, low and high over input sets; the interval is the sets' joint, conservative one."""

    def mean(values: Sequence[float]) -> float:
        return math.exp(sum(map(math.log, values)) / len(values))

    return Interval(
        mean([i.value for i in intervals]),
        mean([i.low for i in intervals]),
        mean([i.high for i in intervals]),
    )
