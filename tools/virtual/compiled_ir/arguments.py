"""A launch's arguments in the order in which the compiled function takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled_ir.held import rounded
from kernelagent.tools.virtual.compiled_ir.memory import Descriptor
from kernelagent.tools.virtual.compiled_ir.text import Function
from kernelagent.tools.virtual.compiled_ir.types import NARROW, Type
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown
from kernelagent.tools.virtual.interpreter.interpreter import CompiledIn, Scalar


def function_arguments(
    function: Function, arguments: Mapping[str, Any], names: Sequence[str], constants: set[str]
) -> dict[str, Any]:
    """By the names that the function has for them; `constants`: parameters that are compiled in."""
    given = [
        item for name in names if name not in constants for item in _flattened(arguments[name])
    ]
    if len(given) != len(function.arguments):
        raise Unknown(f"{len(given)} arguments of {len(function.arguments)}")
    return {
        name: _converted(value, kind)
        for (name, kind), value in zip(function.arguments, given, strict=True)
    }


def _flattened(value: Any) -> Iterator[Any]:
    if value is None or isinstance(value, CompiledIn):
        return
    if isinstance(value, tuple | list):
        for item in value:
            yield from _flattened(item)
    elif isinstance(value, TensorDescriptor):
        yield value
        yield from value.shape
        yield from value.strides
    elif isinstance(value, Scalar):
        yield value.value
    elif isinstance(value, int | float) or hasattr(value, "data_ptr"):
        yield value


def _converted(value: Any, kind: Type) -> Any:
    if isinstance(value, TensorDescriptor):
        if not kind.is_descriptor:
            raise Unknown("a descriptor where a number is taken")
        return Descriptor(
            value.base.data_ptr(),
            tuple(map(int, value.shape)),
            tuple(map(int, value.strides)),
            kind.shape,
            kind.element,
            str(value.padding) == "nan",
        )
    if hasattr(value, "data_ptr"):
        return np.array([value.data_ptr()], np.int64)
    return number(value, kind)


def number(value: int | float, kind: Type) -> Array:
    """One number as a value of a type."""
    if kind.is_float:
        if kind.element in NARROW:
            return rounded(np.array([value], np.float32), kind.element)
        with np.errstate(all="ignore"):
            return np.array([value]).astype(kind.held)
    if kind.element == "i1":
        return np.array([bool(value)])
    return np.array([int(value) % (1 << 64)], np.uint64).astype(kind.held)
