"""A confidence sequence for a median: the interval is valid at every sample size and under optional stopping.

Of n independent values, the number below the true median is Binomial(n, 1/2), whatever
the values' distribution. An interval from the k-th smallest to the k-th largest value misses the
median only when that count is below k or above n - k. The ranks are chosen so that a random walk of
coin tosses crosses either line at any n with at most 2.5 % probability, computed exactly.
So the interval may be read after every value, and reading on until it is narrow costs no validity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

FEWEST = 6
"""With fewer values not even the smallest and the largest enclose the median surely enough."""
_TAIL = Fraction(25, 1000)
"""Chance to miss on one side, over all looks together."""
_KEPT_AT_FIRST = Fraction(3, 8)
"""Share of the error probability kept for later looks; the first look, at six values, spends (1/2)**6."""


def bounds_of(values: Sequence[float]) -> tuple[float, float]:
    """Ends of the 95 % interval for the median of independent values; raises on fewer than six."""
    if len(values) < FEWEST:
        raise ValueError(f"an interval needs at least {FEWEST} values, not {len(values)}")
    rank = rank_at(len(values))
    ordered = sorted(values)
    return ordered[rank - 1], ordered[-rank]


def rank_at(count: int) -> int:
    """The k of the interval after `count` values; 0 where there is none yet."""
    return _walk(count).rank


@dataclass(frozen=True)
class _Walk:
    """All paths of `count` fair tosses: how many crossed the line, and where the others are."""

    rank: int
    crossed: int
    inside: tuple[int, ...]
    """Paths that never crossed, by the number of values below the median."""


_WALKS = [_Walk(rank=0, crossed=0, inside=(1,))]
"""Grown on demand, one entry per count."""


def _walk(count: int) -> _Walk:
    while len(_WALKS) <= count:
        _WALKS.append(_after(_WALKS[-1], len(_WALKS)))
    return _WALKS[count]


def _after(before: _Walk, count: int) -> _Walk:
    inside = [a + b for a, b in zip((*before.inside, 0), (0, *before.inside), strict=True)]
    crossed, rank = 2 * before.crossed, before.rank
    allowed = _spent_by(count) * (1 << count)
    while crossed + inside[rank] <= allowed:
        crossed += inside[rank]
        inside[rank] = 0
        rank += 1
    return _Walk(rank, crossed, tuple(inside))


def _spent_by(count: int) -> Fraction:
    """How much of the tail may be spent within `count` values; all of it only in the limit."""
    if count < FEWEST:
        return Fraction(0)
    return _TAIL * (1 - _KEPT_AT_FIRST * Fraction(FEWEST, count) ** 2)
