"""Reductions and scans of numpy arrays in trees, as a GPU forms them: errors grow with the depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelagent.tools.virtual.numerics import Array

Combine = Callable[[Array, Array], Array]
CombineAll = Callable[[list[Array], list[Array]], list[Array]]
_SHORT = 16
"""Below this length the reduced axis goes to the front: numpy is slow over many short rows."""


class _Order:
    """Which elements are combined first: those half the length apart, or neighbours. Both are right."""

    neighbours = False


ORDER = _Order()
"""Of this process, which interprets one launch at a time."""


def reduced(data: Array, axis: int, combine: Combine) -> Array:
    """Combine along `axis`, one half with the other until one is left; keeps the axis, of length 1."""
    while data.shape[axis] > _SHORT:
        data = combine(*_halves(data, axis))
    rows = np.ascontiguousarray(np.moveaxis(data, axis, 0))
    while rows.shape[0] > 1:
        rows = combine(*_halves(rows, 0))
    return np.moveaxis(rows, 0, axis)


def reduced_together(parts: list[Array], axis: int, combine: CombineAll) -> list[Array]:
    """The same for several arrays of one shape that are combined together."""
    while parts[0].shape[axis] > 1:
        pairs = [_halves(part, axis) for part in parts]
        parts = combine([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    return parts


def scanned(data: Array, axis: int, combine: Combine) -> Array:
    """Every prefix combined, in steps of 1, 2, 4, ... along `axis`."""
    out, step = np.array(data), 1
    while step < out.shape[axis]:
        left, right = part(out, axis, 0, -step), part(out, axis, step, None)
        right[...] = combine(left, right)
        step *= 2
    return out


def part(data: Array, axis: int, start: int | None, stop: int | None) -> Array:
    """A view of a range along one axis."""
    view: Array = data[(slice(None),) * axis + (slice(start, stop),)]
    return view


def add(left: Array, right: Array) -> Array:
    """Addition as the hardware does it: one-bit integers wrap around."""
    if left.dtype == np.bool_:
        return np.logical_xor(left, right)
    result: Any = np.add(left, right)
    return result  # type: ignore[no-any-return]


def _halves(data: Array, axis: int) -> tuple[Array, Array]:
    if ORDER.neighbours:
        along = (slice(None),) * axis
        return data[(*along, slice(0, None, 2))], data[(*along, slice(1, None, 2))]
    middle = data.shape[axis] // 2
    return part(data, axis, 0, middle), part(data, axis, middle, 2 * middle)
