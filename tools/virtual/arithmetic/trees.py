"""Reductions and scans of numpy arrays in trees, as a GPU forms them: errors grow with the depth."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.arithmetic.orders import Scanning

Combine = Callable[[Array, Array], Array]
CombineAll = Callable[[list[Array], list[Array]], list[Array]]
_SHORT = 16
"""Below this length the reduced axis goes to the front: numpy is slow over many short rows."""


def reduced(data: Array, axis: int, combine: Combine, bits: tuple[int, ...]) -> Array:
    """Combine along `axis` until one is left; keeps the axis, of length 1.

    `bits`: those of a place along it, as they are combined away.
    """
    left = iter(_of_what_is_left(bits))
    while data.shape[axis] > _SHORT:
        data = combine(*_parted(data, axis, next(left)))
    rows = np.ascontiguousarray(np.moveaxis(data, axis, 0))
    while rows.shape[0] > 1:
        rows = combine(*_parted(rows, 0, next(left)))
    return np.moveaxis(rows, 0, axis)


def reduced_together(
    parts: list[Array], axis: int, combine: CombineAll, bits: tuple[int, ...]
) -> list[Array]:
    """The same for several arrays of one shape that are combined together."""
    left = iter(_of_what_is_left(bits))
    while parts[0].shape[axis] > 1:
        bit = next(left)
        pairs = [_parted(part, axis, bit) for part in parts]
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


def scanned_by_threads(
    parts: list[Array], axis: int, combine: CombineAll, cut: Scanning
) -> list[Array]:
    """Every prefix, where threads hold elements that follow each other, and warps those of their threads.

    The first axis is that of the programs. What is combined has powers of two for sizes, as Triton's blocks have.
    """
    length = parts[0].shape[axis]
    lanes = min(cut.lanes, length // cut.run)
    in_front = [np.moveaxis(item, axis, 1) for item in parts]
    programs, _, *rest = in_front[0].shape
    # Of shape (programs, warps, lanes, elements of a thread, ...).
    own = [item.reshape(programs, -1, lanes, cut.run, *rest).copy() for item in in_front]
    for at in range(1, cut.run):
        merged = combine([o[:, :, :, at - 1] for o in own], [o[:, :, :, at] for o in own])
        for item, new in zip(own, merged, strict=True):
            item[:, :, :, at] = new
    ends = _over_warps(_over_lanes([item[:, :, :, -1] for item in own], combine), combine)
    flat = [item.reshape(programs, -1, cut.run, *rest) for item in own]
    before = [np.roll(end, 1, 1) for end in ends]
    for at in range(cut.run):
        last = at == cut.run - 1
        added = ends if last else combine(before, [item[:, :, at] for item in flat])
        for item, new in zip(flat, added, strict=True):
            # The first thread of all has nothing before it.
            item[:, 1:, at] = new[:, 1:]
    return [np.moveaxis(item.reshape(programs, length, *rest), 1, axis) for item in flat]


def _over_lanes(totals: list[Array], combine: CombineAll) -> list[Array]:
    """Prefixes over the threads of each warp, of (programs, warps, lanes, ...)."""
    step = 1
    while step < totals[0].shape[2]:
        merged = combine([np.roll(item, step, 2) for item in totals], totals)
        totals = [
            np.concatenate([part(old, 2, 0, step), part(new, 2, step, None)], 2)
            for old, new in zip(totals, merged, strict=True)
        ]
        step *= 2
    return totals


def _over_warps(totals: list[Array], combine: CombineAll) -> list[Array]:
    """The same over all warps, one after the other, of (programs, threads, ...)."""
    through = [[item[:, 0] for item in totals]]
    for warp in range(1, totals[0].shape[1]):
        here = [item[:, warp] for item in totals]
        before = [np.broadcast_to(item[:, -1:], item.shape) for item in through[-1]]
        through.append(combine(before, here))
    return [np.concatenate(items, 1) for items in zip(*through, strict=True)]


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


@cache
def _of_what_is_left(bits: tuple[int, ...]) -> tuple[int, ...]:
    """`bits`: bit positions of an index, in the order in which they are reduced.

    Returns each as a position in the index that is left by then: removing a bit moves every higher bit down by one.
    """
    return tuple(bit - sum(earlier < bit for earlier in bits[:at]) for at, bit in enumerate(bits))


def _parted(data: Array, axis: int, bit: int) -> tuple[Array, Array]:
    """The elements whose place along the axis has the bit, or has not."""
    size = data.shape[axis]
    if 2 << bit == size:
        return part(data, axis, 0, size // 2), part(data, axis, size // 2, size)
    along = (slice(None),) * axis
    if bit == 0:
        return data[(*along, slice(0, None, 2))], data[(*along, slice(1, None, 2))]
    before, after = data.shape[:axis], data.shape[axis + 1 :]
    wide = data.reshape(*before, size >> (bit + 1), 2, 1 << bit, *after)
    halved = (*before, size // 2, *after)
    none, one_bit = (wide[(*along, slice(None), which)].reshape(halved) for which in (0, 1))
    return none, one_bit
