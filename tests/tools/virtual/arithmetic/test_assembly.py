"""Single instructions of inline assembly."""

from __future__ import annotations

import numpy as np
import pytest
import triton.language as tl

from kernelagent.tools.virtual.arithmetic.assembly import NotExecuted, executed
from kernelagent.tools.virtual.arithmetic.elementwise import make

NAN = np.float32("nan")


def _floats(*values):
    return make(np.float32([values]), tl.float32)


def _words(*values):
    return make(np.array([values], np.uint32).view(np.int32), tl.int32)


def _of_words(text, *given):
    constraints = ",".join(("=r", *["r"] * len(given)))
    made = executed(text, constraints, [_words(item) for item in given], [tl.int32], 1)
    assert made.data.dtype == np.int32
    return int(made.data.view(np.uint32)[0, 0])


def test_the_larger_number_or_nan():
    given = [_floats(1.0, NAN, 3.0), _floats(2.0, 5.0, NAN)]
    made = executed("max.NaN.f32 $0, $1, $2;", "=f,f,f", given, [tl.float32], 1)
    np.testing.assert_array_equal(made.data, [[2.0, NAN, NAN]])
    made = executed("max.f32 $0, $1, $2;", "=f, f, f", given, [tl.float32], 1)
    np.testing.assert_array_equal(made.data, [[2.0, 5.0, 3.0]])


def test_operands_stand_in_the_order_of_the_text():
    given = [_floats(1.0), _floats(3.0)]
    made = executed("sub.rn.f32 $0, $2, $1;", "=f,f,f", given, [tl.float32], 1)
    assert made.data[0, 0] == 2.0


def test_numbers_below_the_normal_ones_are_zero_where_the_text_says_so():
    given = [_floats(1e-40), _floats(1.0)]
    assert executed("mul.rn.ftz.f32 $0, $1, $2;", "=f,f,f", given, [tl.float32], 1).data[0, 0] == 0
    assert executed("mul.rn.f32 $0, $1, $2;", "=f,f,f", given, [tl.float32], 1).data[0, 0] > 0


@pytest.mark.parametrize(
    ("text", "given", "made"),
    [
        ("and.b32 $0, $1, 0xff;", (0x1234,), 0x34),
        ("not.b32 $0, $1;", (0,), 0xFFFFFFFF),
        ("shl.b32 $0, $1, $2;", (1, 40), 0),
        ("shr.u32 $0, $1, 4;", (0x80000000,), 0x08000000),
        ("shr.s32 $0, $1, $2;", (0x80000000, 99), 0xFFFFFFFF),
        ("mad.lo.s32 $0, $1, $2, $3;", (0x10000, 0x10000, 7), 7),
        ("max.s32 $0, $1, $2;", (0xFFFFFFFF, 1), 1),
        ("max.u32 $0, $1, $2;", (0xFFFFFFFF, 1), 0xFFFFFFFF),
        ("popc.b32 $0, $1;", (0xF0F0,), 8),
        ("clz.b32 $0, $1;", (1,), 31),
        ("clz.b32 $0, $1;", (0,), 32),
        ("clz.b32 $0, $1;", (0xFFFFFFFF,), 0),
        ("bfe.u32 $0, $1, 8, 8;", (0x00ABCD00,), 0xCD),
        ("bfe.u32 $0, $1, 0, 32;", (0x89ABCDEF,), 0x89ABCDEF),
        ("lop3.b32 $0, $1, $2, $3, 0xEA;", (0xF0, 0xCC, 0x01), (0xF0 & 0xCC) | 0x01),
        ("lop3.b32 $0, $1, $2, $3, 0x96;", (5, 3, 9), 5 ^ 3 ^ 9),
        ("prmt.b32 $0, $1, $2, 0x5410;", (0xAAAA1234, 0xBBBB5678), 0x56781234),
        ("prmt.b32 $0, $1, $2, 0x0008;", (0x00000080, 0), 0x808080FF),
    ],
)  # fmt: skip
def test_words(text, given, made):
    assert _of_words(text, *given) == made


@pytest.mark.parametrize(
    ("text", "constraints", "pack"),
    [
        ("tanh.approx.f32 $0, $1;", "=f,f", 1),
        ("ld.global.f32 $0, [$1];", "=f,f", 1),
        ("max.f32 $0, $1, $1; max.f32 $0, $0, $1;", "=f,f", 1),
        ("max.f32 $0, $1, $1;", "=f,f", 2),
        ("max.f32 $0, $1, $1;", "=r,r", 1),
        ("max.f32 $0, $1;", "=f,f", 1),
        ("max.f32 $0, $1, $3;", "=f,f", 1),
    ],
)
def test_whatever_is_not_one_exact_instruction_is_not_executed(text, constraints, pack):
    with pytest.raises(NotExecuted):
        executed(text, constraints, [_floats(1.0)], [tl.float32], pack)
