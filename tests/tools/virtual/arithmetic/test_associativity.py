"""Combine functions: what rounds otherwise in another order is associative, what gives another result is not."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual.arithmetic.associativity import NotAssociative


@triton.jit
def by_squares(mean_x, count_x, m_x, mean_y, count_y, m_y):
    count = count_x + count_y
    x, y = mean_x * count_x, mean_y * count_y
    mean = (x + y) / tl.maximum(count, 1)
    return mean, count, m_x + x * mean_x + m_y + y * mean_y - count * mean * mean


@triton.jit
def by_squares_of_the_first(mean_x, count_x, m_x, mean_y, count_y, m_y):
    count = count_x + count_y
    x, y = mean_x * count_x, mean_y * count_y
    mean = (x + y) / tl.maximum(count, 1)
    return mean, count, m_x + x * mean_x + m_y + y * mean_y - count * mean * mean_x


@triton.jit
def spread_of(x_ptr, o_ptr, N: tl.constexpr, STEP: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    mean, count, m = tl.reduce(
        (x, tl.full((N,), 1.0, tl.float32), tl.zeros((N,), tl.float32)), 0, STEP
    )
    tl.store(o_ptr, mean)
    tl.store(o_ptr + 1, m / count)


@pytest.mark.parametrize("seed", range(6))
def test_a_difference_of_nearly_equal_squares_is_rounding_and_no_order(interpret, seed):
    values = 1000 + torch.randn(64, generator=torch.Generator().manual_seed(seed))
    out = torch.zeros(2)
    interpret(spread_of, (1,), values, out, 64, by_squares)
    assert out[0].item() == pytest.approx(values.mean().item(), rel=1e-5)


@pytest.mark.parametrize("values", [torch.linspace(1, 3, 64), 100 + torch.linspace(0, 50, 64)])
def test_a_difference_that_rounding_does_not_make_is_refused(interpret, values):
    with pytest.raises(NotAssociative, match="by_squares_of_the_first"):
        interpret(spread_of, (1,), values, torch.zeros(2), 64, by_squares_of_the_first)
