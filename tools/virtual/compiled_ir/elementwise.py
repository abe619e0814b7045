"""Operations on single numbers, done on whole blocks: `arith`, `math` and their like in `tt`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from kernelagent.tools.virtual.arithmetic.elementwise import (
    larger,
    larger_or_nan,
    make,
    remainder,
    smaller,
    smaller_or_nan,
)
from kernelagent.tools.virtual.arithmetic.nans import canonical
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled_ir.held import (
    builder,
    from_bits,
    rounded,
    to_bits,
    unsigned,
)
from kernelagent.tools.virtual.compiled_ir.text import Operation, attribute
from kernelagent.tools.virtual.compiled_ir.types import NARROW, bits_of
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown

Pure = Callable[..., Any]
"""From the values of the operands to that of the result."""


def _arithmetic(function: Pure) -> Callable[[Operation], Pure]:
    def made(operation: Operation) -> Pure:
        element = operation.result_types[0].element
        if element not in NARROW:
            return function
        return lambda *values: rounded(function(*values), element)

    return made


def _of_integers(function: Pure, of_bits: Pure) -> Callable[[Operation], Pure]:
    """`of_bits` is what it is on numbers of one bit."""
    return lambda operation: of_bits if operation.result_types[0].element == "i1" else function


def _of_unsigned(function: Pure) -> Pure:
    def of_bits(left: Array, right: Array) -> Array:
        kind = left.dtype
        result: Array = function(unsigned(left), unsigned(right))
        return result.view(kind) if kind.kind == "i" else result

    return of_bits


def _quotient(left: Array, right: Array) -> Array:
    zero = right == 0
    safe = np.where(zero, 1, right).astype(right.dtype) if zero.any() else right
    result = left // safe
    if left.dtype.kind == "i":
        # Rounded to zero, not down.
        result = result + ((result * safe != left) & ((left < 0) != (safe < 0)))
    result = result.astype(left.dtype, copy=False)
    return np.where(zero, np.array(-1).astype(left.dtype), result) if zero.any() else result


def _rest(left: Array, right: Array) -> Array:
    zero = right == 0
    safe = np.where(zero, 1, right).astype(right.dtype) if zero.any() else right
    result = np.fmod(left, safe)
    return np.where(zero, np.array(-1).astype(left.dtype), result) if zero.any() else result


def _shift(function: Pure) -> Pure:
    def shifted(left: Array, right: Array) -> Array:
        width = left.dtype.itemsize * 8
        if ((right < 0) | (right >= width)).any():
            raise Unknown("a shift by more places than there are bits")
        result: Array = function(left, right)
        return result

    return shifted


_INTEGER: dict[str, Callable[[Operation], Pure]] = {
    "addi": _of_integers(np.add, np.logical_xor),
    "subi": _of_integers(np.subtract, np.logical_xor),
    "muli": _of_integers(np.multiply, np.logical_and),
    "andi": _of_integers(np.bitwise_and, np.logical_and),
    "ori": _of_integers(np.bitwise_or, np.logical_or),
    "xori": _of_integers(np.bitwise_xor, np.logical_xor),
    "divsi": lambda _: _quotient,
    "remsi": lambda _: _rest,
    "divui": lambda _: _of_unsigned(_quotient),
    "remui": lambda _: _of_unsigned(_rest),
    "shli": lambda _: _shift(np.left_shift),
    "shrsi": lambda _: _shift(np.right_shift),
    "shrui": lambda _: _shift(_of_unsigned(np.right_shift)),
    "maxsi": lambda _: np.maximum,
    "minsi": lambda _: np.minimum,
    "maxui": lambda _: _of_unsigned(np.maximum),
    "minui": lambda _: _of_unsigned(np.minimum),
}
_FLOAT: dict[str, Pure] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "remf": remainder,
    "negf": np.negative,
    "maximumf": larger_or_nan,
    "minimumf": smaller_or_nan,
    "maxnumf": larger,
    "minnumf": smaller,
}
_COMPARED = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _compared_integers(operation: Operation) -> Pure:
    predicate = operation.body.partition(",")[0].strip()
    if predicate in ("eq", "ne"):
        return _COMPARED[predicate]
    compare, signed = _COMPARED[predicate[1:]], predicate[0] == "s"

    def compared(left: Array, right: Array) -> Any:
        if left.dtype == np.bool_:
            # The one bit that is set is the sign.
            left, right = (-side.astype(np.int8) if signed else side for side in (left, right))
        elif not signed:
            left, right = unsigned(left), unsigned(right)
        return compare(left, right)

    return compared


def _compared_floats(operation: Operation) -> Pure:
    predicate = operation.body.partition(",")[0].strip()
    match predicate:
        case "ord":
            return lambda left, right: ~(np.isnan(left) | np.isnan(right))
        case "uno":
            return lambda left, right: np.isnan(left) | np.isnan(right)
        case "true" | "false":
            return lambda left, right: np.full(
                np.broadcast_shapes(left.shape, right.shape), predicate == "true"
            )
    compare = _COMPARED[predicate[1:]]
    if predicate == "one":
        return lambda left, right: (left < right) | (left > right)
    if predicate[0] == "o" or predicate == "une":
        return compare
    return lambda left, right: compare(left, right) | np.isnan(left) | np.isnan(right)


def _select(condition: Array, left: Array, right: Array) -> Array:
    return np.where(condition, left, right)


_MATH = {
    "math.exp": "create_exp",
    "math.exp2": "create_exp2",
    "math.log": "create_log",
    "math.log2": "create_log2",
    "math.sin": "create_sin",
    "math.cos": "create_cos",
    "math.sqrt": "create_sqrt",
    "math.rsqrt": "create_rsqrt",
    "math.erf": "create_erf",
    "math.floor": "create_floor",
    "math.ceil": "create_ceil",
    "math.absf": "create_fabs",
    "math.fma": "create_fma",
    "tt.precise_sqrt": "create_precise_sqrt",
    "tt.precise_divf": "create_precise_divf",
    "tt.approx_divf": "create_approx_divf",
}


def _function(operation: Operation) -> Pure:
    method = getattr(builder(), _MATH[operation.name])
    kind = operation.result_types[0]

    def computed(*values: Array) -> Array:
        handles = (make(to_bits(item, kind.element), kind.kind) for item in values)
        return from_bits(method(*handles).data, kind.element)

    return computed


def _clamped(operation: Operation) -> Pure:
    element = operation.result_types[0].element
    if "propagateNan = all" in operation.body + operation.attributes:
        return lambda value, low, high: rounded(np.clip(value, low, high), element)
    return lambda value, low, high: rounded(np.fmin(np.fmax(value, low), high), element)


def _high_product(left: Array, right: Array) -> Array:
    kind = left.dtype
    if kind.itemsize < 8:
        bits = kind.itemsize * 8
        wide = unsigned(left).astype(np.uint64) * unsigned(right).astype(np.uint64)
        result: Array = (wide >> np.uint64(bits)).astype(f"u{kind.itemsize}").view(kind)
        return result
    a, b = unsigned(left), unsigned(right)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    crossed = (a & low) * (b >> half) + ((a & low) * (b & low) >> half)
    other = (a >> half) * (b & low) + (crossed & low)
    high = (a >> half) * (b >> half) + (crossed >> half) + (other >> half)
    return np.asarray(high.view(kind))


def _external(operation: Operation) -> Pure:
    symbol = attribute(operation.attributes, "symbol")
    name = (symbol or "").strip('"')
    kinds, made = operation.operand_types, operation.result_types[0]
    result_kind = made.kind if made.is_float else getattr(tl, f"int{bits_of(made.element)}")

    def called(*values: Array) -> Array:
        handles = [
            make(
                to_bits(item, kind.element),
                kind.kind if kind.is_float else getattr(tl, f"int{bits_of(kind.element)}"),
            )
            for item, kind in zip(values, kinds, strict=True)
        ]
        try:
            result = builder().create_extern_elementwise("", "", name, handles, result_kind, True)
        except NotImplementedError as error:
            raise Unknown(str(error)) from error
        return from_bits(result.data, made.element)

    return called


PURE: dict[str, Callable[[Operation], Pure]] = {
    **{f"arith.{name}": make_one for name, make_one in _INTEGER.items()},
    **{f"arith.{name}": _arithmetic(function) for name, function in _FLOAT.items()},
    **dict.fromkeys(_MATH, _function),
    "math.absi": lambda _: np.abs,
    "arith.cmpi": _compared_integers,
    "arith.cmpf": _compared_floats,
    "arith.select": lambda _: _select,
    "tt.ptr_to_int": lambda _: lambda values: values,
    "tt.clampf": _clamped,
    "tt.mulhiui": lambda _: _high_product,
    "tt.extern_elementwise": _external,
}
"""By name: what makes an operation's function."""
COMPUTING = frozenset(
    {name for name in PURE if name.startswith("math.")}
    | {f"arith.{name}" for name in _FLOAT if name != "negf"}
    | {"tt.clampf", "tt.extern_elementwise", "tt.precise_sqrt", "tt.precise_divf", "tt.approx_divf"}
) - {"math.absf", "math.absi"}
"""What computes a NaN anew where there was one before."""


def with_a_gpus_nan(pure: Pure, operation: Operation) -> Pure:
    """The same, with the bits that a GPU gives every NaN that it computes."""
    kind = operation.result_types[0]
    if kind.element not in ("f16", "f32"):
        return pure
    return lambda *values: canonical(pure(*values), kind.kind)
