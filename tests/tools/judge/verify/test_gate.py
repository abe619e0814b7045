from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelagent.tools.judge.verify.compare.gate import gate, unit_roundoff
from kernelagent.tools.judge.verify.compare.regions import (
    MOST_BLOCKS,
    block_length,
    natural_rms,
    region_norms,
    regions_of,
)
from tests.lanes import examples

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn)
SHAPES = st.lists(st.integers(0, 40), max_size=4).map(tuple)


def judged(candidate, oracle, eager=None, natural=None):
    eager = oracle.to(candidate.dtype) if eager is None else eager
    scale = natural_rms(oracle) if natural is None else natural
    return gate(candidate, eager, oracle, scale)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float64, 2.0**-53),
        (torch.float32, 2.0**-24),
        (torch.float16, 2.0**-11),
        (torch.bfloat16, 2.0**-8),
        (torch.float8_e4m3fn, 2.0**-4),
        (torch.float8_e5m2, 2.0**-3),
        (torch.float8_e5m2fnuz, 2.0**-3),
    ],
    ids=str,
)
def test_unit_roundoff_is_half_an_ulp_at_one(dtype, expected):
    assert unit_roundoff(dtype) == expected


@given(SHAPES, st.sampled_from(FLOATS), st.integers(0, 99))
@settings(max_examples=examples(60))
def test_the_rounded_oracle_always_passes(shape, dtype, seed):
    oracle = normal(*shape, seed=seed)
    assert judged(oracle.to(dtype), oracle).passed


@given(st.lists(st.integers(1, 30), min_size=1, max_size=3), st.integers(0, 10**6))
@settings(max_examples=examples(60))
def test_one_element_far_off_is_refused_and_named(shape, place):
    oracle = normal(*shape)
    place %= oracle.numel()
    wrong = oracle.float()
    wrong.view(-1)[place] += 0.01
    result = judged(wrong, oracle)
    assert not result.passed
    assert result.ratio > 1
    index = result.worst_index
    assert index is not None
    assert oracle.reshape(-1)[place] == oracle[index]


@given(
    st.sampled_from([math.nan, math.inf, -math.inf]),
    st.sampled_from(FLOATS[:4]),
    st.integers(0, 23),
)
@settings(max_examples=examples(40))
def test_a_nonfinite_value_where_the_oracle_is_finite_is_refused(value, dtype, place):
    oracle = normal(4, 6)
    wrong = oracle.to(dtype, copy=True)
    wrong.view(-1)[place] = value
    result = judged(wrong, oracle)
    assert not result.passed
    assert result.nonfinite
    assert result.worst_index == (place // 6, place % 6)
    assert result.ratio == math.inf


@given(st.sampled_from([math.nan, math.inf, -math.inf]), st.integers(0, 23))
@settings(max_examples=examples(30))
def test_a_nonfinite_value_of_the_oracle_is_demanded_and_accepted(value, place):
    oracle = normal(4, 6)
    oracle.view(-1)[place] = value
    right = oracle.float()
    assert judged(right, oracle).passed
    finite = right.clone()
    finite.view(-1)[place] = 0.0
    assert judged(finite, oracle).nonfinite


def test_infinity_of_the_other_sign_is_refused():
    oracle = torch.tensor([1.0, math.inf], dtype=torch.float64)
    assert judged(torch.tensor([1.0, -math.inf]), oracle).nonfinite


def test_where_eager_and_oracle_disagree_about_infinity_either_is_right():
    oracle = torch.tensor([1.0, 70000.0], dtype=torch.float64)
    eager = torch.tensor([1.0, math.inf], dtype=torch.float16)
    assert gate(eager.clone(), eager, oracle, 1.0).passed
    oracle_infinite = torch.tensor([1.0, math.inf], dtype=torch.float64)
    eager_nan = torch.tensor([1.0, math.nan])
    for value in (math.nan, math.inf):
        assert gate(torch.tensor([1.0, value]), eager_nan, oracle_infinite, 1.0).passed


def test_a_finite_value_where_only_the_oracle_is_not_finite_is_held_to_eager():
    oracle = torch.tensor([1.0, math.inf], dtype=torch.float64)
    eager = torch.tensor([1.0, 5.0])
    assert gate(torch.tensor([1.0, 5.0]), eager, oracle, 1.0).passed
    assert not gate(torch.tensor([1.0, 6.0]), eager, oracle, 1.0).passed


def test_nan_everywhere_never_passes_for_a_zero_oracle():
    oracle = torch.zeros(8, dtype=torch.float64)
    assert not judged(torch.full((8,), math.nan), oracle).passed


def test_a_zero_oracle_with_no_scale_demands_zero():
    oracle = torch.zeros(8, dtype=torch.float64)
    assert judged(torch.zeros(8), oracle).passed
    assert not judged(torch.full((8,), 1e-20), oracle).passed


def test_the_floor_lets_cancellation_near_zero_pass():
    oracle = normal(64, 64) * 1e-6
    noisy = (oracle + 2.0**-24 * normal(64, 64, seed=1)).float()
    assert judged(noisy, oracle, natural=1.0).passed
    assert not judged(noisy, oracle, natural=1e-6).passed


def test_one_bad_row_among_many_is_seen_though_the_whole_is_within_its_budget():
    oracle = normal(4096, 64)
    wrong = oracle.float()
    eager = (oracle + 1e-4 * normal(4096, 64, seed=1) * (torch.arange(4096) < 64)[:, None]).float()
    wrong[4000] += 5e-5
    result = judged(wrong, oracle, eager)
    assert not result.passed
    first, last = result.worst_block
    assert first <= 4000 * 64 < last


def test_eagers_own_error_widens_the_budget():
    oracle = normal(64, 64)
    rough = (oracle + 1e-3 * normal(64, 64, seed=1)).float()
    other = (oracle + 1e-3 * normal(64, 64, seed=2)).float()
    assert judged(other, oracle, rough).passed
    assert not judged(other, oracle).passed


@given(st.floats(-290, 300), st.integers(0, 50))
@settings(max_examples=examples(40))
def test_the_verdict_does_not_depend_on_the_scale_of_float64(exponent, seed):
    oracle = normal(16, 16, seed=seed) * 10.0**exponent
    right, wrong = oracle.clone(), oracle * (1 + 1e-9)
    assert judged(right, oracle).passed
    assert not judged(wrong, oracle).passed


def test_a_huge_dynamic_range_in_one_tensor_does_not_hide_small_rows():
    scales = torch.logspace(-12, 12, 600, dtype=torch.float64)[:, None]
    oracle = normal(600, 640) * scales
    wrong = oracle.float()
    wrong[0] *= 1.001
    assert judged(oracle.float(), oracle, natural=1e-12).passed
    assert not judged(wrong, oracle, natural=1e-12).passed


def test_an_eager_run_that_is_infinitely_wrong_opens_no_door():
    oracle = torch.tensor([1e308, 1.0], dtype=torch.float64)
    eager = torch.tensor([-1e308, 1.0], dtype=torch.float64)
    assert not gate(torch.tensor([0.0, 1.0], dtype=torch.float64), eager, oracle, 1.0).passed


def test_complex_outputs_are_judged_by_part():
    oracle = torch.complex(normal(8, 8), normal(8, 8, seed=1))
    right = oracle.to(torch.complex64)
    wrong = right.clone()
    wrong[3, 5] += 0.01j
    assert gate(right, right, oracle, natural_rms(oracle)).passed
    refused = gate(wrong, right, oracle, natural_rms(oracle))
    assert refused.worst_index == (3, 5)
    assert not refused.passed


def test_subnormal_half_precision_values_may_be_half_a_step_off():
    oracle = torch.full((32,), 2.0**-26, dtype=torch.float64)
    assert judged(oracle.to(torch.float16), oracle, natural=0.0).passed


@given(SHAPES)
def test_no_output_has_more_than_256_blocks_and_a_few(shape):
    assert regions_of(shape) <= MOST_BLOCKS + 1
    assert block_length(shape) >= 1


def test_blocks_are_whole_rows_where_there_are_many():
    assert block_length((1000, 700)) % 700 == 0
    assert block_length((2, 10**6)) < 10**6


def test_region_norms_put_the_whole_first():
    values = torch.cat([torch.zeros(512), torch.ones(512)]).double()
    norms = region_norms(values, (1024,))
    assert norms.rms.tolist() == pytest.approx([0.5**0.5, 0, 1])
    assert norms.max.tolist() == [1, 0, 1]


def test_tensors_of_different_shape_are_not_the_gates_business():
    with pytest.raises(ValueError, match="one shape"):
        gate(torch.zeros(2), torch.zeros(3), torch.zeros(3).double(), 1.0)


def test_the_gate_takes_a_small_part_of_a_large_output_to_float64_at_once(monkeypatch):
    oracle = normal(3000, 1000)
    right = oracle.float()
    largest = 0
    to_float64 = torch.Tensor.to

    def watched(tensor, *args, **kwargs):
        nonlocal largest
        if args and args[0] == torch.float64:
            largest = max(largest, tensor.numel())
        return to_float64(tensor, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "to", watched)
    assert judged(right, oracle).passed
    assert 0 < largest <= 2**20


def test_which_part_of_a_complex_number_is_nan_is_convention_and_whether_one_is_is_not():
    nan, inf = math.nan, math.inf

    def passes(got, want):
        oracle = torch.full((4, 8), 1 + 1j, dtype=torch.complex128)
        candidate, eager = oracle.to(torch.complex64), oracle.to(torch.complex64)
        oracle[1, 2] = eager[1, 2] = complex(*want)
        candidate[1, 2] = complex(*got)
        return gate(candidate, eager, oracle, 1.0).passed

    assert passes((inf, nan), (nan, nan))
    assert passes((nan, 1.0), (nan, nan))
    assert passes((inf, 0.5), (inf, nan))
    assert not passes((1.0, 1.0), (nan, nan))
    assert not passes((inf, 0.0), (nan, nan))
    assert not passes((nan, nan), (1.0, 1.0))
