from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from kernelagent.tools.cuda.sequence import FEWEST, bounds_of, rank_at


def test_six_values_are_the_fewest_that_give_an_interval():
    assert rank_at(FEWEST - 1) == 0
    assert bounds_of([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)
    with pytest.raises(ValueError, match="at least 6"):
        bounds_of([1.0] * 5)


def chances_of_missing(most: int) -> list[Fraction]:
    """By number of values: the chance that the interval missed the median to one side at any look so far.

    Exact and from the ranks alone: all walks of fair tosses, by how many values lie below the median.
    """
    inside, missed, chances = [1], 0, []
    for count in range(1, most + 1):
        inside = [a + b for a, b in zip((*inside, 0), (0, *inside), strict=True)]
        rank = rank_at(count)
        missed = 2 * missed + sum(inside[:rank])
        inside[:rank] = [0] * rank
        chances.append(Fraction(missed, 1 << count))
    return chances


def test_looking_after_every_one_of_many_values_never_misses_more_than_was_allowed():
    chances = chances_of_missing(400)
    assert chances[FEWEST - 2] == 0
    assert chances[FEWEST - 1] == Fraction(1, 2**FEWEST)
    assert chances[-1] < Fraction(25, 1000)
    assert chances[-1] > Fraction(24, 1000), "the interval is wider than it need be"


def test_the_ranks_grow_with_the_values_so_the_interval_closes_in_on_the_median():
    ranks = [rank_at(count) for count in range(1000)]
    assert ranks == sorted(ranks)
    assert ranks[999] > 410
    chance = Random(0)
    low, high = bounds_of([chance.gauss(5, 1) for _ in range(999)])
    assert low < 5 < high
    assert high - low < 0.5
