"""Factors of `tl.dot_scaled`, as Triton makes numbers of 16 bits of them where tensor cores know no scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.arithmetic.elementwise import Handle, make
from kernelagent.tools.virtual.arithmetic.numerics import Array

_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
_NO_NUMBER = 255
"""The scale that stands for NaN."""


def held_in(*formats: Any) -> Any:
    """The type in which factors of these two formats are multiplied."""
    halves = stock._ir.ScaleDotElemTypeTY.FP16
    return tl.float16 if halves in formats else tl.bfloat16


def factor(
    value: Handle, scale: Handle | None, form: Any, kind: Any, *, packed_axis: int, along: int
) -> Handle:
    """One factor with its scales, in `kind`.

    `packed_axis`: along which two numbers of four bits share a byte; `along`: the axis of the sum.
    """
    if form == stock._ir.ScaleDotElemTypeTY.E2M1:
        wide = _unpacked(value.data, packed_axis)
    else:
        wide = numerics.to_fp32(value.data, value.dtype.scalar)
    wide = _rounded(wide, kind)
    if scale is not None:
        factors = _rounded(_scales(scale, kind), kind)
        factors = np.repeat(factors, wide.shape[along] // factors.shape[-1], -1)
        wide = wide * (np.swapaxes(factors, -1, -2) if along == -2 else factors)
    return make(numerics.convert(wide, tl.float32, kind), kind)


def _unpacked(held: Array, axis: int) -> Array:
    """The number in the low bits of each byte comes first."""
    bits = np.moveaxis(held.view(np.uint8), axis, -1)
    pairs = np.stack([bits & 15, bits >> 4], -1).reshape(*bits.shape[:-1], -1)
    return np.moveaxis(_E2M1[pairs], -1, axis)


def _scales(scale: Handle, kind: Any) -> Array:
    """Powers of two by their exponents; scales of another format are numbers."""
    if not scale.dtype.scalar.is_int():
        return numerics.to_fp32(scale.data, scale.dtype.scalar)
    exponents = scale.data.view(np.uint8)
    # 2**-127, which is subnormal; fp16 has nothing so small.
    bits = np.maximum(exponents.astype(np.uint32) << 23, 0x00400000).astype(np.uint32)
    return np.where(exponents == _NO_NUMBER, np.float32(np.nan), bits.view(np.float32))


def _rounded(wide: Array, kind: Any) -> Array:
    return numerics.to_fp32(numerics.convert(wide, tl.float32, kind), kind)
