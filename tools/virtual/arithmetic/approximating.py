"""Quotients, roots, exponentials and the like that are off by a last place, as a GPU's own are.

Triton compiles `/` to `div.full.f32` and `tl.sqrt` to `sqrt.approx.ftz.f32`, which PTX allows an error of two last places
and of about one; `rsqrt.approx`, `ex2.approx` and `lg2.approx` err about as much (PTX ISA, floating point
instructions), and so do libdevice's functions of fp32 (CUDA C++ Programming Guide, "Mathematical Functions"). What
a GPU gives for each argument is not documented. So results are moved by one last place or stay, as a key decides that is
drawn: always alike for the same numbers, and nobody can rely on what an exact machine computes. `tl.div_rn` and
`tl.sqrt_rn` are exact on both.

Exact stay powers of two where one operand makes them so (a quotient by one, `exp(0)`, `rsqrt(4)`); another exact
quotient or root may come out one place too small, as a product with a rounded reciprocal does, never too large.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import triton.language as tl

from kernelagent.tools.virtual.arithmetic import libdevice
from kernelagent.tools.virtual.arithmetic.numerics import Array

Handle = Any
_APPROXIMATED = """create_rsqrt create_exp create_exp2 create_log create_log2 create_sin create_cos
create_erf""".split()
_MANTISSA = np.uint32(0x007FFFFF)
_SMALLEST_NORMAL = np.float32(2.0**-126)
_LARGEST = np.float32(3.0e38)
_FACTORS = (np.uint32(0x9E3779B1), np.uint32(0x85EBCA77), np.uint32(0xC2B2AE3D))
_MIXER, _SHIFT = np.uint32(0x2C1B3C6D), np.uint32(15)
_TOP_TWO = np.uint32(30)


def approximating(builder: Any) -> Any:
    """A class of builders whose operations err by a last place where they have a key (`approximates`)."""
    ways: dict[str, Callable[..., Array]] = dict.fromkeys(_APPROXIMATED, values)
    ways |= {"create_fdiv": quotients, "create_sqrt": roots}
    for name, way in ways.items():
        setattr(builder, name, _erring(getattr(builder, name), way))
    extern = builder.create_extern_elementwise

    @wraps(extern)
    def create_extern_elementwise(
        self: Any, library: str, path: str, symbol: str, args: list[Handle], *others: Any
    ) -> Handle:
        result = extern(self, library, path, symbol, args, *others)
        return _with_errors(self, result, args, values) if libdevice.errs(symbol) else result

    builder.create_extern_elementwise = create_extern_elementwise
    return builder


def _erring(method: Callable[..., Handle], way: Callable[..., Array]) -> Callable[..., Handle]:
    @wraps(method)
    def erring(self: Any, *args: Handle) -> Handle:
        return _with_errors(self, method(self, *args), args, way)

    return erring


def _with_errors(self: Any, result: Handle, args: Any, way: Callable[..., Array]) -> Handle:
    kinds = {arg.dtype.scalar for arg in (result, *args)}
    if self.approximates is not None and kinds == {tl.float32}:
        with np.errstate(all="ignore"):
            result.data = way(result.data, *(arg.data for arg in args), self.approximates)
    return result


def quotients(exact: Array, left: Array, right: Array, key: int) -> Array:
    """Of fp32, as `div.full.f32` may have them; `exact`: rounded to the nearest."""
    whole = exact.astype(np.float64) * right.astype(np.float64) == left.astype(np.float64)
    return _moved(exact, (left, right), key, keeps=_is_power(right), downwards=whole)


def roots(exact: Array, given: Array, key: int) -> Array:
    """Square roots."""
    whole = exact.astype(np.float64) ** 2 == given.astype(np.float64)
    return _moved(exact, (given,), key, keeps=_is_power(exact), downwards=whole)


def values(exact: Array, *given_and_key: Any) -> Array:
    """Of any other function that a GPU approximates. Logarithms of powers of two stay, and what is one in size."""
    given, key = given_and_key[:-1], int(given_and_key[-1])
    keeps = _is_power(exact)
    if len(given) == 1:
        keeps = keeps | (_is_power(given[0]) & (exact == np.trunc(exact)))
    return _moved(exact, given, key, keeps=keeps, downwards=None)


def _moved(
    exact: Array, given: tuple[Array, ...], key: int, *, keeps: Array, downwards: Array | None
) -> Array:
    """By one last place up or down, for a quarter of all numbers each."""
    mixed = np.full(exact.shape, key & 0xFFFFFFFF, np.uint32)
    for factor, numbers in zip(_FACTORS, (exact, *given), strict=False):
        mixed ^= _bits(numbers) * factor
        mixed ^= mixed >> _SHIFT
        mixed *= _MIXER
    way = mixed >> _TOP_TWO
    size = np.abs(exact)
    moves = (size > _SMALLEST_NORMAL) & (size < _LARGEST) & ~keeps
    less = moves & (way == 0)
    more = moves & (way == 1)
    if downwards is not None:
        more &= ~downwards
    # The bits of a float without its sign count its last places.
    step = more.astype(np.int32) - less.astype(np.int32)
    result: Array = (_bits(exact).view(np.int32) + step).view(np.float32)
    return result


def _bits(numbers: Array) -> Array:
    return np.ascontiguousarray(numbers, np.float32).view(np.uint32)


def _is_power(numbers: Array) -> Array:
    """Whether a power of two, or zero."""
    result: Array = _bits(numbers) & _MANTISSA == 0
    return result
