"""Whole numbers beside multiples, squares and powers of two are drawn within their range."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.judge.problem.trials.planting.beside_multiples import beside_multiples


def drawn(divisors: list[int], low: int, high: int, count: int) -> list[int]:
    return beside_multiples(divisors, low, high, count, torch.Generator().manual_seed(1))


def test_remainders_of_nothing_and_of_one_less_than_the_divisor_come() -> None:
    left = [number % 86400 for number in drawn([86400], 0, 2**31 - 1, 300)]
    assert {0, 1, 86399} <= set(left)
    assert sum(n in (0, 1, 86399) for n in left) >= 90


def test_multiples_of_a_product_of_two_come_as_well() -> None:
    hour = 3600 * 10**9
    numbers = drawn([3600, 10**9], 1_600_000_000 * 10**9, 1_800_000_000 * 10**9, 300)
    assert {(n + 1) % hour for n in numbers} & {0, 1, 2}


def test_squares_and_powers_of_two_come_with_those_beside_them() -> None:
    numbers = drawn([], 0, 2**60, 400)
    assert any(math.isqrt(n) ** 2 == n for n in numbers if n > 4)
    assert any(math.isqrt(n + 1) ** 2 == n + 1 for n in numbers if n > 4)
    assert any(n.bit_length() != (n - 1).bit_length() for n in numbers if n > 4)
    assert any(n.bit_length() != (n + 1).bit_length() for n in numbers if n > 4)


@given(
    st.lists(st.integers(-5, 10**6), max_size=4),
    st.integers(-(10**6), 10**6),
    st.integers(0, 10**6),
    st.integers(0, 40),
)
def test_all_of_them_are_in_range(divisors: list[int], low: int, width: int, count: int) -> None:
    numbers = drawn(divisors, low, low + width, count)
    assert len(numbers) <= count
    assert all(low <= number <= low + width for number in numbers)
