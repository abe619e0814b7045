"""Functions of libdevice that are exact by definition, against rational numbers and Python's integers."""

from __future__ import annotations

import inspect
import math
import re
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from triton.language.extra.cuda import libdevice as tritons

from kernelagent.tools.virtual.arithmetic.libdevice import function_for

FP32 = some.floats(width=32, allow_nan=False, allow_infinity=False)
FP64 = some.floats(min_value=-1e150, max_value=1e150).filter(lambda x: x == 0 or abs(x) > 1e-140)
INT32 = some.integers(-(1 << 31), (1 << 31) - 1)
INT64 = some.integers(-(1 << 63), (1 << 63) - 1)
DIRECTIONS = ("rn", "rz", "rd", "ru")


def asked(symbol: str, *arguments: Any, kind: torch.dtype) -> Any:
    return function_for(f"__nv_{symbol}")(
        *(torch.tensor([a], dtype=kind) for a in arguments)
    ).item()


def in_steps(exact: Fraction, direction: str, kind: Any) -> float:
    """The number of this type that is rounded to in that direction."""
    near = kind(exact.numerator / exact.denominator)
    if not np.isfinite(near):
        near = kind(np.finfo(kind).max) * np.sign(near)
    candidates = [near, np.nextafter(near, kind(-np.inf)), np.nextafter(near, kind(np.inf))]
    finite = [c for c in candidates if np.isfinite(c)]
    below = [c for c in finite if Fraction(float(c)) <= exact]
    above = [c for c in finite if Fraction(float(c)) >= exact]
    if direction == "rd" or (direction == "rz" and exact > 0):
        return float(max(below)) if below else -math.inf
    if direction == "ru" or direction == "rz":
        return float(min(above)) if above else math.inf
    return float(min(finite, key=lambda c: abs(Fraction(float(c)) - exact)))


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(a=FP32, b=FP32)
def test_sums_and_products_of_fp32_are_rounded_in_their_direction(
    direction: str, a: float, b: float
) -> None:
    for name, exact in (("fadd", Fraction(a) + Fraction(b)), ("fsub", Fraction(a) - Fraction(b))):
        _same(asked(f"{name}_{direction}", a, b, kind=torch.float32), exact, direction, np.float32)
    product = Fraction(a) * Fraction(b)
    if product == 0 or abs(product) > Fraction(2) ** -100:
        _same(asked(f"fmul_{direction}", a, b, kind=torch.float32), product, direction, np.float32)


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(a=FP64, b=FP64, c=FP64)
def test_sums_products_and_quotients_of_fp64_are_rounded_in_their_direction(
    direction: str, a: float, b: float, c: float
) -> None:
    x, y = Fraction(a), Fraction(b)
    for name, exact in (("dadd", x + y), ("dmul", x * y), ("ddiv", x / y if b else Fraction(0))):
        if (name == "ddiv" and not b) or (exact and not 1e-280 < abs(exact) < 1e290):
            continue
        _same(asked(f"{name}_{direction}", a, b, kind=torch.float64), exact, direction, np.float64)


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(a=FP32, b=FP32, c=FP32)
def test_fp32_fma_is_rounded_once_and_quotients_and_roots_in_their_direction(
    direction: str, a: float, b: float, c: float
) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if Fraction(2) ** -100 < abs(exact) < Fraction(2) ** 120:
        _same(asked(f"fmaf_{direction}", a, b, c, kind=torch.float32), exact, direction, np.float32)
    if b and a and Fraction(2) ** -100 < abs(Fraction(a) / Fraction(b)) < Fraction(2) ** 120:
        quotient = Fraction(a) / Fraction(b)
        _same(asked(f"fdiv_{direction}", a, b, kind=torch.float32), quotient, direction, np.float32)
    root = Fraction(asked(f"fsqrt_{direction}", abs(a), kind=torch.float32))
    step = Fraction(float(np.spacing(np.float32(root))))
    square = Fraction(abs(a))
    match direction:
        case "ru":
            assert root**2 >= square
            assert (root - step) ** 2 < square or root == 0
        case "rz" | "rd":
            assert root**2 <= square
            assert (root + step) ** 2 > square


def _same(found: float, exact: Fraction, direction: str, kind: Any) -> None:
    if direction == "rn" and abs(exact) > Fraction(float(np.finfo(kind).max)):
        return
    assert found == in_steps(exact, direction, kind), (found, float(exact), direction)


@given(a=INT32, b=INT32, c=INT32)
def test_functions_of_integers_of_32_bits_are_pythons(a: int, b: int, c: int) -> None:
    bits, mask = a & 0xFFFFFFFF, 0xFFFFFFFF
    expected = {
        "mulhi": a * b >> 32,
        "hadd": a + b >> 1,
        "rhadd": a + b + 1 >> 1,
        "sad": _signed(abs(a - b) + (c & mask), 32),
        "umulhi": _signed((a & mask) * (b & mask) >> 32, 32),
        "uhadd": _signed((a & mask) + (b & mask) >> 1, 32),
        "urhadd": _signed((a & mask) + (b & mask) + 1 >> 1, 32),
        "popc": bits.bit_count(),
        "clz": 32 - bits.bit_length(),
        "ffs": (bits & -bits).bit_length(),
        "brev": _signed(int(f"{bits:032b}"[::-1], 2), 32),
    }
    for symbol, value in expected.items():
        many = {"sad": 3, "popc": 1, "clz": 1, "ffs": 1, "brev": 1}.get(symbol, 2)
        assert asked(symbol, *(a, b, c)[:many], kind=torch.int32) == value, symbol


@given(a=INT64, b=INT64)
def test_functions_of_integers_of_64_bits_are_pythons(a: int, b: int) -> None:
    bits, mask = a & (1 << 64) - 1, (1 << 64) - 1
    assert asked("mul64hi", a, b, kind=torch.int64) == a * b >> 64
    assert asked("umul64hi", a, b, kind=torch.int64) == _signed((a & mask) * (b & mask) >> 64, 64)
    assert asked("popcll", a, kind=torch.int64) == bits.bit_count()
    assert asked("clzll", a, kind=torch.int64) == 64 - bits.bit_length()
    assert asked("ffsll", a, kind=torch.int64) == (bits & -bits).bit_length()
    assert asked("brevll", a, kind=torch.int64) == _signed(int(f"{bits:064b}"[::-1], 2), 64)
    for direction in DIRECTIONS:
        for number, kind in (("float", np.float32), ("double", np.float64)):
            found = asked(f"ll2{number}_{direction}", a, kind=torch.int64)
            assert found == in_steps(Fraction(a), direction, kind)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


@given(x=FP32)
def test_conversions_to_integers_round_in_their_direction_and_saturate(x: float) -> None:
    for direction, whole in zip(
        DIRECTIONS, (round, math.trunc, math.floor, math.ceil), strict=True
    ):
        for name, low, high in (
            ("int", -(1 << 31), (1 << 31) - 1), ("uint", 0, (1 << 32) - 1),
            ("ll", -(1 << 63), (1 << 63) - 1), ("ull", 0, (1 << 64) - 1),
        ):  # fmt: skip
            found = asked(f"float2{name}_{direction}", x, kind=torch.float32)
            expected = min(max(whole(x), low), high)
            bits = 32 if name.endswith("int") else 64
            assert found == _signed(expected, bits), (name, direction)


def test_nan_becomes_the_integer_that_the_instruction_gives() -> None:
    assert asked("float2int_rn", math.nan, kind=torch.float32) == 0
    assert asked("double2int_rz", math.nan, kind=torch.float64) == -(1 << 31)
    assert asked("float2ll_rn", math.nan, kind=torch.float32) == -(1 << 63)


@given(x=FP64)
def test_bits_are_taken_as_they_are(x: float) -> None:
    (bits,) = struct.unpack("<q", struct.pack("<d", x))
    assert asked("double_as_longlong", x, kind=torch.float64) == bits
    high, low = (
        asked("double2hiint", x, kind=torch.float64),
        asked("double2loint", x, kind=torch.float64),
    )
    assert asked("hiloint2double", high, low, kind=torch.int32) == x
    narrow = float(np.float32(x)) if abs(x) < 1e38 else 1.5
    word = asked("float_as_int", narrow, kind=torch.float32)
    assert asked("int_as_float", word, kind=torch.int32) == narrow


def test_named_functions_have_their_values() -> None:
    values = {
        "fdimf": ((5.0, 3.0), 2.0),
        "norm3df": ((2.0, 3.0, 6.0), 7.0),
        "norm4df": ((1e30, 1e30, 1e30, 1e30), 2e30),
        "rnorm3df": ((2.0, 3.0, 6.0), 1 / 7),
        "rcbrtf": ((8.0,), 0.5),
        "sinpif": ((1.0,), 0.0),
        "cospif": ((0.5,), 0.0),
        "erfcinvf": ((1.0,), 0.0),
        "ilogbf": ((0.75,), -1),
        "llrintf": ((2.5,), 2),
        "llroundf": ((2.5,), 3),
        "y0f": ((1.0,), 0.08825696),
    }
    for symbol, (arguments, expected) in values.items():
        found = asked(symbol, *arguments, kind=torch.float32)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-30), symbol
    assert asked("fdimf", 3.0, 5.0, kind=torch.float32) == 0.0
    assert math.isnan(asked("fdimf", math.nan, 5.0, kind=torch.float32))


def test_every_function_of_tritons_libdevice_but_three_can_be_executed() -> None:
    missing = set()
    for symbol in set(re.findall(r'"(__nv_\w+)"', inspect.getsource(tritons))):
        try:
            function_for(symbol)
        except NotImplementedError:
            missing.add(symbol.removesuffix("f"))
    assert missing == {"__nv_jn", "__nv_yn", "__nv_rcp64h"}
