"""The operations that older Tritons compute otherwise, under whichever Triton is installed."""

from __future__ import annotations

import numpy as np
import pytest
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.operations.builder import RepairedBuilder

RIGHT = triton_versions.RightBuilder
"""The repaired older builder; on Triton 3.9 it stands on that, and must agree with it."""
INT32 = st.integers(-(2**31), 2**31 - 1)
FLOAT32 = st.floats(-(2.0**60), 2.0**60, width=32)
INT64 = st.integers(-(2**63), 2**63 - 1)


def handle(values, kind, dtype):
    return stock.TensorHandle(np.array(values, dtype=dtype), kind)


@pytest.fixture(scope="module", params=[RIGHT, RepairedBuilder])
def builder(request):
    return request.param()


def test_versions_are_read_and_others_refused_in_one_sentence():
    assert triton_versions.version("3.10.0+git1234") == (3, 10)
    assert triton_versions.why_not((3, 6)) is None
    assert "3.5.1 is installed" in triton_versions.why_not((3, 5), "3.5.1")


def test_a_minimum_or_maximum_with_nan_is_the_other_number(builder):
    number, nan = handle([1.0], tl.float32, np.float32), handle([np.nan], tl.float32, np.float32)
    assert builder.create_minnumf(number, nan).data[0] == 1.0
    assert builder.create_maxnumf(nan, number).data[0] == 1.0


def test_clamping_takes_the_bound_for_nan_unless_nan_is_asked_for(builder):
    nan = handle([np.nan], tl.float32, np.float32)
    low, high = handle([0.0], tl.float32, np.float32), handle([1.0], tl.float32, np.float32)
    none, every = stock._ir.PROPAGATE_NAN.NONE, stock._ir.PROPAGATE_NAN.ALL
    assert builder.create_clampf(nan, low, high, none).data[0] == 0.0
    assert np.isnan(builder.create_clampf(nan, low, high, every).data[0])


def test_a_histogram_counts_what_its_mask_leaves(builder):
    data = handle([0, 1, 1, 4, 9], tl.int32, np.int32)
    mask = handle([True, True, False, False, False], tl.int1, np.bool_)
    assert builder.create_histogram(data, 4, mask).data.tolist() == [1, 1, 0, 0]


def test_an_arithmetic_shift_leaves_its_operands_as_they_are(builder):
    left, right = handle([2**31], tl.uint32, np.uint32), handle([1], tl.uint32, np.uint32)
    builder.create_ashr(left, right)
    assert left.data.dtype == np.uint32


@given(a=INT32, b=INT32)
def test_the_high_half_of_an_unsigned_product_of_32_bits(a, b):
    left, right = handle([a], tl.int32, np.int32), handle([b], tl.int32, np.int32)
    high = int(RIGHT().create_umulhi(left, right).data.view(np.uint32)[0])
    assert high == ((a % 2**32) * (b % 2**32)) >> 32


@given(a=INT64, b=INT64)
def test_the_high_half_of_an_unsigned_product_of_64_bits(a, b):
    left, right = handle([a], tl.int64, np.int64), handle([b], tl.int64, np.int64)
    high = int(RIGHT().create_umulhi(left, right).data.view(np.uint64)[0])
    assert high == ((a % 2**64) * (b % 2**64)) >> 64


@given(
    x=FLOAT32,
    y=FLOAT32,
    z=FLOAT32,
)
def test_a_fused_multiply_add_is_within_one_unit_of_the_exact_sum(x, y, z):
    from fractions import Fraction

    with np.errstate(all="ignore"):
        sides = [handle([value], tl.float32, np.float32) for value in (x, y, z)]
        got = RIGHT().create_fma(*sides).data[0]
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if np.isfinite(got):
        unit = max(abs(float(np.spacing(got))), 2.0**-149)
        assert abs(Fraction(float(got)) - exact) <= Fraction(unit)


@pytest.mark.parametrize(
    ("kind", "dtype", "ones"), [(tl.uint32, np.uint32, 2**32 - 1), (tl.int8, np.int8, -1)]
)
def test_all_ones_exist_for_unsigned_types_too(builder, kind, dtype, ones):
    made = builder.get_all_ones_value(kind).data
    assert made.dtype == dtype
    assert int(made[0]) == ones


def test_a_boolean_argument_is_one_bit():
    made = triton_versions.converted(True)
    assert made.dtype == tl.int1
    assert made.handle.data.dtype == np.bool_


def test_an_integer_that_does_not_fit_wraps_in_a_reduction():
    assert triton_versions.narrowed(300, tl.uint8) == 44
    assert triton_versions.narrowed(1.5, tl.float32) == 1.5
