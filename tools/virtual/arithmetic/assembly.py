"""Inline assembly that is one instruction of arithmetic on 32 bits, whose result the PTX ISA fixes to the last bit.

Everything else (several instructions, approximations, memory, packed operands) stays unexecuted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic.elementwise import (
    Handle,
    flushed,
    larger,
    larger_or_nan,
    smaller,
    smaller_or_nan,
    without_subnormals,
)
from kernelagent.tools.virtual.arithmetic.nans import canonical
from kernelagent.tools.virtual.arithmetic.numerics import Array

_TEXT = re.compile(r"\s*(?P<name>[a-z][\w.]*)\s+\$0\s*,(?P<given>[^;{}]+);?\s*")
_NUMBER = re.compile(r"-?(0x[0-9a-fA-F]+|0|[1-9]\d*)")
_WORDS = (tl.int32, tl.uint32)
_BITS = 32


class Result(stock.TensorHandle):  # type: ignore[misc]
    """A handle, and what Triton's semantics take of an operation that may have several results."""

    def get_result(self, at: int) -> Handle:
        """The only one."""
        return self


class NotExecuted(Exception):
    """Assembly that is not in the table; the message says which."""


def executed(
    text: str, constraints: str, given: Sequence[Handle], results: Sequence[Any], pack: int
) -> Result:
    """What the instruction makes of the operands, in the type of its only result; raises `NotExecuted`."""
    found = _TEXT.fullmatch(text)
    if found is None or pack != 1 or len(results) != 1:
        raise NotExecuted("it is not one instruction with one result on single elements")
    made = results[0].scalar
    name = found["name"]
    flushing, name = ".ftz" in name, name.replace(".ftz", "")
    letter, kinds = ("f", (tl.float32,)) if name in _FLOATS else ("r", _WORDS)
    function = (_FLOATS | _OF_WORDS).get(name)
    if function is None:
        raise NotExecuted(f"{found['name']} is not among the instructions that are executed")
    if constraints.replace(" ", "") != ",".join((f"={letter}", *letter * len(given))):
        raise NotExecuted(f"{name} is executed on registers of kind {letter} alone")
    if made not in kinds or any(item.dtype.scalar not in kinds for item in given):
        raise NotExecuted(f"{name} is executed on {kinds[0]} alone")
    operands = [flushed(item) if flushing else item for item in given]
    places = [part.strip() for part in found["given"].split(",")]
    values = [_operand(place, operands, letter) for place in places]
    try:
        result = function(*values)
    except TypeError as error:
        raise NotExecuted(f"{name} does not take {len(values)} operands") from error
    if letter == "r":
        return Result(np.asarray(result).astype(np.uint32).view(made_dtype(made)), made)
    data = canonical(result.astype(np.float32, copy=False), made)
    return Result(without_subnormals(data) if flushing else data, made)


def made_dtype(kind: Any) -> Any:
    """How words of a type are held."""
    return np.int32 if kind == tl.int32 else np.uint32


def _operand(place: str, given: Sequence[Handle], letter: str) -> Array:
    if place.startswith("$") and place[1:].isdigit() and 0 < int(place[1:]) <= len(given):
        held: Array = given[int(place[1:]) - 1].data
        return held if letter == "f" else np.ascontiguousarray(held).view(np.uint32)
    if letter == "r" and _NUMBER.fullmatch(place):
        return np.array([int(place, 0) % (1 << _BITS)], np.uint32)
    raise NotExecuted(f"its operand {place!r}")


def _signed(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(a.view(np.int32), b.view(np.int32)).view(np.uint32)


def _left(value: Array, by: Array) -> Array:
    return value.astype(np.uint64) << np.minimum(by, _BITS).astype(np.uint64)


def _right(value: Array, by: Array) -> Array:
    return value.astype(np.uint64) >> np.minimum(by, _BITS).astype(np.uint64)


def _right_signed(value: Array, by: Array) -> Array:
    shifted: Array = value.view(np.int32) >> np.minimum(by, _BITS - 1).astype(np.int32)
    return shifted


def _field(value: Array, position: Array, length: Array) -> Array:
    kept = _left(np.ones_like(length), length & 0xFF) - np.uint64(1)
    return _right(value, position & 0xFF) & kept


def _ones(value: Array) -> Array:
    return reduce(np.add, ((value >> np.uint32(bit)) & 1 for bit in range(_BITS)))


def _zeros_in_front(value: Array) -> Array:
    return _BITS - np.frexp(value.astype(np.float64))[1]


def _by_table(a: Array, b: Array, c: Array, table: Array) -> Array:
    """`lop3`: bit n of the table is the result where the three bits are n."""
    result = a & 0
    for at in range(8):
        here = reduce(
            np.bitwise_and,
            (item if at & bit else ~item for item, bit in zip((a, b, c), (4, 2, 1), strict=True)),
        )
        result = result | np.where((table >> np.uint32(at)) & 1 == 1, here, 0)
    return result


def _bytes_chosen(a: Array, b: Array, choice: Array) -> Array:
    """`prmt`: each four bits of the choice take one of eight bytes, or its sign eight times."""
    both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(_BITS)
    result = both & np.uint64(0)
    for at in range(4):
        nibble = (choice.astype(np.uint64) >> np.uint64(4 * at)) & np.uint64(15)
        byte = (both >> ((nibble & np.uint64(7)) * np.uint64(8))) & np.uint64(0xFF)
        sign = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
        byte = np.where(nibble & np.uint64(8), sign, byte)
        result = result | byte << np.uint64(8 * at)
    return result


_FLOATS: dict[str, Callable[..., Array]] = {
    "max.f32": larger,
    "max.NaN.f32": larger_or_nan,
    "min.f32": smaller,
    "min.NaN.f32": smaller_or_nan,
    "add.rn.f32": np.add,
    "sub.rn.f32": np.subtract,
    "mul.rn.f32": np.multiply,
    "div.rn.f32": np.divide,
    "rcp.rn.f32": lambda value: np.float32(1) / value,
    "sqrt.rn.f32": np.sqrt,
}
"""Without `.rn` the assembler may join a product with the sum it goes into."""
_OF_WORDS: dict[str, Callable[..., Array]] = {
    "and.b32": np.bitwise_and,
    "or.b32": np.bitwise_or,
    "xor.b32": np.bitwise_xor,
    "not.b32": np.bitwise_not,
    "shl.b32": _left,
    "shr.b32": _right,
    "shr.u32": _right,
    "shr.s32": _right_signed,
    "add.s32": np.add,
    "add.u32": np.add,
    "sub.s32": np.subtract,
    "sub.u32": np.subtract,
    "mul.lo.s32": np.multiply,
    "mul.lo.u32": np.multiply,
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "mad.lo.u32": lambda a, b, c: a * b + c,
    "max.s32": _signed(np.maximum),
    "max.u32": np.maximum,
    "min.s32": _signed(np.minimum),
    "min.u32": np.minimum,
    "popc.b32": _ones,
    "clz.b32": _zeros_in_front,
    "bfe.u32": _field,
    "lop3.b32": _by_table,
    "prmt.b32": _bytes_chosen,
}
