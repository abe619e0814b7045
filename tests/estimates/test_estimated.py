"""What an estimate with an interval says about another one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.domain.estimated import Estimated

FACTORS = st.floats(1.0, 4.0)


def test_an_interval_that_does_not_hold_its_value_is_refused() -> None:
    with pytest.raises(ValueError, match="low <= value <= high"):
        Estimated(1.0, 1.5, 2.0)


def test_two_estimates_are_apart_only_where_their_intervals_do_not_meet() -> None:
    quick, slow = Estimated(1.0, 0.9, 1.1), Estimated(1.3, 1.2, 1.4)
    assert quick.below(slow)
    assert quick.apart(slow)
    assert slow.apart(quick)
    assert not quick.apart(Estimated(1.2, 1.05, 1.4))


@pytest.mark.long
@given(st.floats(0.1, 1e6), st.floats(0.1, 1e6), FACTORS, FACTORS)
def test_a_ratio_is_at_least_as_uncertain_as_each_of_its_parts(
    a: float, b: float, wide: float, other: float
) -> None:
    first, second = Estimated.within(a, 1 / wide, wide), Estimated.within(b, 1 / other, other)
    ratio = first.over(second)
    assert math.isclose(ratio.value, a / b)
    assert ratio.spread >= max(first.spread, second.spread) - 1e-9
