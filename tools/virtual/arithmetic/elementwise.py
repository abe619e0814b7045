"""Arithmetic on single elements where numpy's is another than a GPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic.numerics import Array

Handle = Any
"""Triton's `TensorHandle`: a numpy array beside a triton dtype."""
make = stock.TensorHandle
_SMALLEST = np.float32(2.0**-126)


def flushed(arg: Handle) -> Handle:
    """`.ftz`: what is below the normal numbers of fp32 counts as zero."""
    if arg.dtype.scalar != tl.float32:
        return arg
    data = without_subnormals(arg.data)
    return arg if data is arg.data else make(data, tl.float32)


def without_subnormals(data: Array) -> Array:
    """Of fp32 numbers, those below the normal ones as zeros of their sign."""
    tiny = np.abs(data) < _SMALLEST
    return np.where(tiny, data * np.float32(0), data) if tiny.any() else data


def reciprocal_root(values: Array) -> Array:
    return 1 / np.sqrt(values)


def larger(left: Array, right: Array) -> Array:
    return _of_zeros(np.fmax(left, right), left, right, np.add)


def larger_or_nan(left: Array, right: Array) -> Array:
    return _of_zeros(np.maximum(left, right), left, right, np.add)


def smaller(left: Array, right: Array) -> Array:
    return _of_zeros(np.fmin(left, right), left, right, _negative_sum)


def smaller_or_nan(left: Array, right: Array) -> Array:
    return _of_zeros(np.minimum(left, right), left, right, _negative_sum)


def _of_zeros(result: Array, left: Array, right: Array, zeros: Callable[..., Array]) -> Array:
    """To a GPU -0 is less than +0; numpy gives either."""
    both = result == 0
    if not both.any():
        return result
    both = both & (left == right)
    return np.where(both, zeros(left, right), result) if both.any() else result


def _negative_sum(left: Array, right: Array) -> Array:
    return -(-left - right)


def remainder(left: Array, right: Array) -> Array:
    """`x - trunc(x / y) * y`, the quotient rounded and the rest in one step."""
    quotient = np.trunc(left / right)
    wide = np.longdouble if left.dtype == np.float64 else np.float64
    rest = (left.astype(wide) - quotient.astype(wide) * right.astype(wide)).astype(left.dtype)
    return np.where(np.isinf(right), left, rest)
