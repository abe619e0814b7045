"""What a GPU approximates is off by a last place in some elements, always alike for the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual.arithmetic.approximating import quotients, roots, values

KEY = 20240817


def draws(seed: int, low: float = 0.1, high: float = 90.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, 4096).astype(np.float32)


def places(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return one.view(np.int32).astype(np.int64) - other.view(np.int32)


def test_quotients_are_off_by_one_place_in_half_of_all_elements_and_alike_each_time():
    left, right = draws(1), draws(2)
    exact = left / right
    got = quotients(exact, left, right, KEY)
    off = places(got, exact)
    assert set(np.unique(off)) == {-1, 0, 1}
    assert 0.4 < np.mean(off != 0) < 0.6
    assert np.array_equal(got, quotients(exact, left, right, KEY))
    assert not np.array_equal(got, quotients(exact, left, right, KEY + 1))


def test_a_quotient_by_a_power_of_two_is_exact_and_no_exact_one_is_too_large():
    left = np.arange(1, 500, dtype=np.float32)
    assert np.array_equal(quotients(left / 8, left, np.full_like(left, 8.0), KEY), left / 8)
    whole = quotients(np.full_like(left, 21.0), left * 21, left, KEY)
    assert set(np.unique(places(whole, np.full_like(left, 21.0)))) == {-1, 0}


def test_roots_of_squares_are_never_too_large_and_those_of_powers_of_four_exact():
    given = np.arange(2, 400, dtype=np.float32)
    off = places(roots(given, given**2, KEY), given)
    assert set(np.unique(off)) == {-1, 0}
    assert not off[[0, 2, 6, 14]].any()


def test_what_is_no_number_or_exactly_known_stays():
    given = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 8.0], np.float32)
    with np.errstate(all="ignore"):
        for function in (np.exp, np.log2, np.sin, np.sqrt):
            exact = function(given)
            known = ~np.isfinite(exact) | np.isin(given, (0.0,)) | (function is np.log2)
            got = values(exact, given, KEY)
            assert np.array_equal(got[known], exact[known], equal_nan=True)


@triton.jit
def both_ways(x_ptr, y_ptr, q_ptr, e_ptr, s_ptr, r_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(q_ptr + i, x / y)
    tl.store(e_ptr + i, tl.div_rn(x, y))
    tl.store(s_ptr + i, tl.sqrt(x))
    tl.store(r_ptr + i, tl.sqrt_rn(x))


@pytest.mark.parametrize(("key", "alike"), [(None, True), (KEY, False)])
def test_div_rn_and_sqrt_rn_are_exact_and_the_operators_are_not_where_they_err(
    interpreter, interpret, key, alike
):
    x, y = (torch.from_numpy(draws(seed)) for seed in (3, 4))
    out = [torch.empty(4096) for _ in range(4)]
    interpreter.builder.approximates = key
    try:
        interpret(both_ways, (1,), x, y, *out, 4096)
    finally:
        interpreter.builder.approximates = None
    assert torch.equal(out[1], x / y)
    assert np.array_equal(out[3].numpy(), np.sqrt(x.numpy()))
    assert torch.equal(out[0], out[1]) is alike
    assert torch.equal(out[2], out[3]) is alike
