"""When a 16-bit result is the right value rounded once."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.judge.verify.compare.ulps import correctly_rounded

HALVES = st.sampled_from([torch.bfloat16, torch.float16])


def values(seed: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(8, 33, dtype=torch.float64, generator=made)


@given(HALVES, st.integers(0, 10_000))
def test_what_is_rounded_once_is_correctly_rounded(dtype: torch.dtype, seed: int) -> None:
    right = values(seed)
    assert correctly_rounded(right.to(dtype), right)
    assert correctly_rounded(right.float().to(dtype), right)


@given(HALVES, st.integers(0, 10_000), st.integers(0, 8 * 33 - 1), st.sampled_from([-1, 1]))
def test_one_element_that_is_a_unit_off_is_not(
    dtype: torch.dtype, seed: int, at: int, to: int
) -> None:
    right = values(seed)
    # Not near the middle of two numbers, where both are right.
    right = right.to(dtype).double() * (1 + torch.finfo(dtype).eps / 16)
    got = right.to(dtype)
    got.reshape(-1).view(torch.int16)[at] += to
    assert not correctly_rounded(got, right)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_factor_below_the_budget_is_not(dtype: torch.dtype) -> None:
    right = values(0)
    assert not correctly_rounded((right * (1 + torch.finfo(dtype).eps / 4)).to(dtype), right)


def test_in_the_middle_of_two_numbers_both_are_right() -> None:
    right = torch.tensor([1 + 2.0**-8, -3.0], dtype=torch.float64)
    for first in (1.0, 1 + 2.0**-7):
        assert correctly_rounded(torch.tensor([first, -3.0], dtype=torch.bfloat16), right)


def test_nothing_is_said_of_what_is_not_finite_or_wider() -> None:
    right = torch.tensor([1.0, float("inf")], dtype=torch.float64)
    assert not correctly_rounded(right.to(torch.bfloat16), right)
    assert not correctly_rounded(right.float()[:1], right[:1])
    beyond = torch.tensor([1e6], dtype=torch.float64)
    assert not correctly_rounded(torch.zeros(1, dtype=torch.float16), beyond)
