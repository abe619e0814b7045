"""Conversions between formats of numbers, as the compiled code names them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.arithmetic.elementwise import make
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled_ir.held import (
    builder,
    from_bits,
    rounded,
    to_bits,
    unsigned,
)
from kernelagent.tools.virtual.compiled_ir.text import Operation
from kernelagent.tools.virtual.compiled_ir.types import NARROW, Type, bits_of
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown

Pure = Callable[..., Any]
"""From the values of the operands to that of the result."""


def _extended(operation: Operation) -> Pure:
    given, made = operation.operand_types[0], operation.result_types[0]
    signed = operation.name in ("arith.extsi", "arith.sitofp", "arith.index_cast")

    def extended(values: Array) -> Array:
        if given.element == "i1":
            values = -values.astype(np.int8) if signed else values.astype(np.int8)
        elif not signed:
            values = unsigned(values)
        if made.element in NARROW:
            return rounded(values.astype(np.float32), made.element)
        return values.astype(made.held)

    return extended


def _truncated(operation: Operation) -> Pure:
    made = operation.result_types[0]
    if made.element == "i1":
        return lambda values: values & 1 != 0
    return lambda values: values.astype(made.held)


def _to_integer(operation: Operation) -> Pure:
    given, made = operation.operand_types[0], operation.result_types[0]
    sign = "u" if operation.name == "arith.fptoui" else ""
    kind = np.dtype(made.held)
    if made.element == "i1":
        raise Unknown("a floating point number as one bit")
    target = getattr(tl, f"{sign}int{kind.itemsize * 8}")
    source = tl.float32 if given.element in NARROW else given.kind

    def converted(values: Array) -> Array:
        result = builder().create_fp_to_si(make(values, source), target).data
        held: Array = result.view(kind)
        return held

    return converted


def _to_float(operation: Operation) -> Pure:
    given, made = operation.operand_types[0], operation.result_types[0]
    how = re.search(r"rounding = (\w+)", operation.body + operation.attributes)
    if how is not None and how[1] not in ("rtne", "RTNE"):
        return _toward_zero(given, made)

    def converted(values: Array) -> Array:
        if given.element in NARROW and made.element not in NARROW:
            return values.astype(made.held)
        if made.element in NARROW:
            source = tl.float32 if given.element in NARROW else given.kind
            kind = NARROW[made.element]
            return numerics.to_fp32(numerics.convert(values, source, kind), kind)
        return values.astype(made.held)

    return converted


def _toward_zero(given: Type, made: Type) -> Pure:
    def converted(values: Array) -> Array:
        handle = make(to_bits(values, given.element), given.kind)
        result = builder().create_fp_to_fp(handle, made.kind, stock._ir.ROUNDING_MODE.RTZ).data
        return from_bits(result, made.element)

    return converted


def _bitcast(operation: Operation) -> Pure:
    given, made = operation.operand_types[0], operation.result_types[0]
    if given.element == made.element or (bits_of(given.element) != bits_of(made.element)):
        return lambda values: values

    if given.element in ("f16", "f32") and not made.is_float:
        # Which bits a NaN has is the interpreter's to say.
        target = getattr(tl, f"int{bits_of(made.element)}")
        return lambda values: builder().create_bitcast(make(values, given.kind), target).data

    def cast(values: Array) -> Array:
        held = to_bits(values, given.element)
        wanted = np.dtype(f"u{bits_of(made.element) // 8}" if made.element in NARROW else made.held)
        return from_bits(np.ascontiguousarray(held).view(wanted), made.element)

    return cast


PURE: dict[str, Callable[[Operation], Pure]] = {
    "arith.extsi": _extended,
    "arith.extui": _extended,
    "arith.sitofp": _extended,
    "arith.uitofp": _extended,
    "arith.index_cast": _extended,
    "arith.trunci": _truncated,
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_integer,
    "arith.extf": _to_float,
    "arith.truncf": _to_float,
    "tt.fp_to_fp": _to_float,
    "arith.bitcast": _bitcast,
    "tt.bitcast": _bitcast,
}
"""By name: what makes an operation's function."""
