"""How values are held here, and how the interpreter holds them, whose arithmetic is used."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import triton.language as tl

from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled_ir.types import NARROW


def rounded(values: Array, element: str) -> Array:
    """What was computed in fp32 as a value of this format."""
    if element == "bf16":
        return numerics.round_to_bf16(values)
    if element in NARROW:
        kind = NARROW[element]
        return numerics.to_fp32(numerics.convert(values, tl.float32, kind), kind)
    return values


def to_bits(values: Array, element: str) -> Array:
    """A floating point block as the interpreter holds it."""
    if element in NARROW:
        return numerics.convert(np.ascontiguousarray(values), tl.float32, NARROW[element])
    return values


def from_bits(values: Array, element: str) -> Array:
    """The other way."""
    return numerics.to_fp32(values, NARROW[element]) if element in NARROW else values


@cache
def builder() -> Any:
    """The interpreter's own arithmetic, heard by nobody."""
    from kernelagent.tools.virtual.operations.builder import RepairedBuilder

    return RepairedBuilder()


def unsigned(values: Array) -> Array:
    """Integers as the unsigned ones of the same bits."""
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.kind == "i" else values
