"""Factors with scales, as numbers of 16 bits."""

from __future__ import annotations

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.arithmetic.elementwise import make
from kernelagent.tools.virtual.arithmetic.scaled import factor

FORMS = stock._ir.ScaleDotElemTypeTY


def test_large_numbers_of_bf16_stay_what_they_are():
    given = numerics.convert(np.float32([[1e6, -3e38]]), tl.float32, tl.bfloat16)
    made = factor(make(given, tl.bfloat16), None, FORMS.BF16, tl.bfloat16, packed_axis=-1, along=-1)
    np.testing.assert_array_equal(made.data, given)


def test_two_numbers_of_four_bits_share_a_byte_and_take_the_scale_of_their_group():
    packed = np.uint8([[0x2F] * 16 + [0x71] * 16])
    scales = make(np.uint8([[128, 255]]), tl.uint8)
    made = factor(make(packed, tl.uint8), scales, FORMS.E2M1, tl.bfloat16, packed_axis=-1, along=-1)
    wide = numerics.to_fp32(made.data, tl.bfloat16)
    np.testing.assert_array_equal(wide[0, :2], [-12.0, 2.0])
    assert np.isnan(wide[0, 32:]).all()


def test_scales_that_fp16_cannot_hold_are_infinite_there():
    scales = make(np.uint8([[127 + 16]]), tl.uint8)
    given = make(np.ones((1, 32), np.float16), tl.float16)
    made = factor(given, scales, FORMS.FP16, tl.float16, packed_axis=-1, along=-1)
    assert np.isinf(made.data).all()
