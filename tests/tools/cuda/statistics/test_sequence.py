from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

import pytest

from kernelagent.tools.cuda.sequence import FEWEST, bounds_of, chance_of_missing, rank_at


def test_six_values_are_the_fewest_that_give_an_interval():
    assert rank_at(FEWEST - 1) == 0
    assert bounds_of([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)
    with pytest.raises(ValueError, match="at least 6"):
        bounds_of([1.0] * 5)


def test_the_chance_of_missing_is_what_counting_every_path_by_hand_gives():
    count = 15
    missed = 0
    for signs in product((0, 1), repeat=count):
        below = 0
        for n, sign in enumerate(signs, start=1):
            below += sign
            if below < rank_at(n):
                missed += 1
                break
    assert chance_of_missing(count) == Fraction(missed, 2**count)


def test_looking_after_every_one_of_many_values_never_misses_more_than_was_allowed():
    chances = [chance_of_missing(count) for count in range(400)]
    assert chances == sorted(chances)
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
