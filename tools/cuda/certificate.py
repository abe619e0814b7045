"""The final measurement of a winner: rounds of fresh processes, blocks timed in A/B/B/A order, an interval.

A launch is one new process per side. In it every input set is timed in blocks A/B/B/A, in which
steady warming cancels; the launch's ratio is the median over its blocks. Launches, not blocks, are
the independent values of the interval: what a process keeps for its whole life (its memory's
layout, the clock it found) and the correlation of neighbouring blocks stay inside a launch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from kernelagent.domain.evaluation import Interval
from kernelagent.tools.cuda.sequence import FEWEST
from kernelagent.tools.cuda.statistics import (
    interval_of,
    is_faster,
    mean_ratio,
    narrow_enough,
)

Block = Mapping[str, tuple[float, float]]
"""Per-call microseconds by side: from the forward and from the reverse half of an A/B/B/A block."""
Launch = Mapping[str, Sequence[Block]]
"""The blocks by input set, measured by one process per side."""


@dataclass(frozen=True)
class Rules:
    """When a certificate is done, and between which sides."""

    baseline: str = "eager"
    candidate: str = "candidate"
    share: float = 0.02
    """The interval asked for reaches at most this share of the ratio to either side."""
    most_launches: int = 12


@dataclass(frozen=True)
class Certificate:
    """What the launches measured together say."""

    speedup: Interval
    """Over all input sets: the geometric mean within each launch, its median over launches."""
    by_set: dict[str, Interval]
    launches: int
    narrow: bool
    """False: the limit came before the interval asked for."""

    @property
    def faster(self) -> bool:
        """True when even the lower end is above 1."""
        return is_faster(self.speedup)


def certify(
    launch: Callable[[int], Launch],
    rules: Rules,
    expired: Callable[[], bool],
) -> Certificate:
    """Launch until the interval is narrow enough, or `expired`, or the most launches were made.

    `launch` starts fresh processes and returns their blocks; it is given the launch's number from 0.
    Below six launches there is no interval, so `expired` is not asked before. Raises ValueError when
    a launch returns no block, other input sets than the first, or a time that is no time.
    """
    result: list[Launch] = []
    while True:
        result.append(launch(len(result)))
        if len(result) < FEWEST:
            continue
        certificate = certificate_of(result, rules)
        if certificate.narrow or expired() or len(result) >= rules.most_launches:
            return certificate


def certificate_of(launches: Sequence[Launch], rules: Rules) -> Certificate:
    """What at least six launches say; the order of input sets does not matter."""
    names = set(launches[0])
    if not names or any(set(launch) != names for launch in launches):
        raise ValueError("every launch measures the same input sets, at least one")
    ratios = {name: [ratio_of(launch[name], rules) for launch in launches] for name in names}
    together = [mean_ratio([of_set[i] for of_set in ratios.values()]) for i in range(len(launches))]
    speedup = interval_of(together)
    return Certificate(
        speedup=speedup,
        by_set={name: interval_of(ratios[name]) for name in sorted(names)},
        launches=len(launches),
        narrow=narrow_enough(speedup, rules.share),
    )


def turn_interval(blocks: Sequence[Block], rules: Rules) -> Interval:
    """What one process per side says, over at least six blocks: enough to rank, not to certify.

    Holds for these two processes only, and only as far as their blocks are independent.
    """
    return interval_of([ratio_of([block], rules) for block in blocks])


def ratio_of(blocks: Sequence[Block], rules: Rules) -> float:
    """One launch's baseline time over candidate time: the median over its blocks."""
    if not blocks:
        raise ValueError("a launch measured no block")
    logs = []
    for block in blocks:
        times = (*block[rules.baseline], *block[rules.candidate])
        if any(not math.isfinite(time) or time <= 0 for time in times):
            raise ValueError("a time is finite and positive")
        ahead, back, own_ahead, own_back = map(math.log, times)
        logs.append((ahead + back - own_ahead - own_back) / 2)
    return math.exp(median(logs))


def measure_block(sides: Mapping[str, Callable[[], float]], order: Sequence[str]) -> Block:
    """Time every side in this order and then in reverse; each side returns microseconds per call."""
    there = {name: sides[name]() for name in order}
    back = {name: sides[name]() for name in reversed(order)}
    return {name: (there[name], back[name]) for name in order}


def shuffled(sides: Sequence[str], chance: Random) -> list[str]:
    """The sides in random order: what does not cancel in a block falls on either side alike."""
    return chance.sample(list(sides), k=len(sides))
