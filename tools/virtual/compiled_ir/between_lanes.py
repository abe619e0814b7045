"""Reductions, scans and functions of elements, by the compiled kernel's own function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelagent.tools.virtual.arithmetic import trees
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.arithmetic.orders import Order
from kernelagent.tools.virtual.compiled_ir.text import Operation, attribute
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown

Combining = Callable[..., tuple[Array, ...]]
_USUAL = Order()


def _axis(operation: Operation) -> int:
    return int(attribute(operation.attributes, "axis").split(":")[0])  # type: ignore[union-attr]


def _reduce(operation: Operation) -> Callable[[Combining, tuple[Array, ...]], Any]:
    """In the order in which the interpreter's usual reductions go."""
    axis = _axis(operation)
    results = operation.result_types

    def reduce(function: Combining, given: tuple[Array, ...]) -> Any:
        size = given[0].shape[axis]
        bits = _USUAL.bits(given[0].shape, axis, size)

        def combine(left: list[Array], right: list[Array]) -> list[Array]:
            return [
                np.broadcast_to(made, part.shape)
                for made, part in zip(function(*left, *right), left, strict=True)
            ]

        if len(given) == 1:
            parts = [trees.reduced(given[0], axis, lambda a, b: combine([a], [b])[0], bits)]
        else:
            parts = trees.reduced_together(list(given), axis, combine, bits)
            if not _has_nan(given) and _differ(
                parts, trees.reduced_together(list(given), axis, combine, bits[::-1])
            ):
                # Which of equal values is taken is left open, and the interpreter takes the last.
                parts = _one_after_another(list(given), axis, combine)
        return tuple(
            np.squeeze(part, axis).reshape(kind.held_shape)
            for part, kind in zip(parts, results, strict=True)
        )

    return reduce


def _has_nan(given: tuple[Array, ...]) -> bool:
    """Which index is beside a NaN depends on the order; the interpreter's is this one then."""
    return any(item.dtype.kind == "f" and bool(np.isnan(item).any()) for item in given)


def _differ(parts: list[Array], others: list[Array]) -> bool:
    """Whether integers do; floating point numbers may, by rounding."""
    return any(
        one.dtype.kind != "f" and not np.array_equal(one, other)
        for one, other in zip(parts, others, strict=True)
    )


def _one_after_another(given: list[Array], axis: int, combine: trees.CombineAll) -> list[Array]:
    parts = [trees.part(item, axis, 0, 1) for item in given]
    for at in range(1, given[0].shape[axis]):
        parts = combine(parts, [trees.part(item, axis, at, at + 1) for item in given])
    return parts


def _scan(operation: Operation) -> Callable[[Combining, tuple[Array, ...]], Any]:
    axis = _axis(operation)
    reverse = "reverse = true" in operation.attributes

    def scan(function: Combining, given: tuple[Array, ...]) -> Any:
        parts = [np.flip(item, axis) if reverse else item for item in given]
        parts = [np.array(item) for item in parts]
        length, step = parts[0].shape[axis], 1
        while step < length:
            left = [trees.part(item, axis, 0, -step) for item in parts]
            right = [trees.part(item, axis, step, None) for item in parts]
            merged = [np.array(item) for item in function(*left, *right)]
            for item, new in zip(right, merged, strict=True):
                item[...] = new
            step *= 2
        return tuple(np.flip(item, axis) if reverse else item for item in parts)

    return scan


def _map(operation: Operation) -> Callable[[Combining, tuple[Array, ...]], Any]:
    pack = attribute(operation.attributes, "pack")
    if pack is not None and not pack.startswith("1"):
        raise Unknown("a function of several elements at a time")

    def mapped(function: Combining, given: tuple[Array, ...]) -> Any:
        return tuple(np.broadcast_to(item, given[0].shape) for item in function(*given))

    return mapped


MAKERS: dict[str, Callable[[Operation], Callable[[Combining, tuple[Array, ...]], Any]]] = {
    "tt.reduce": _reduce,
    "tt.scan": _scan,
    "tt.map_elementwise": _map,
}
