"""Hints to the compiler (`tl.multiple_of`, `max_contiguous`, `max_constancy`): do they hold for the values?

A false hint matters only if it changes the machine code. Lines with false hints are recorded, with the axes of a block
for which they are false; the launcher compiles the kernel without these and refuses it only if the code differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import triton.language as tl

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled.synchronising import line_now
from kernelagent.tools.virtual.device.storages.arena import ALIGNMENT

NAMES = ("multiple_of", "max_contiguous", "max_constancy")


@dataclass
class Hints:
    """The hints of the launch that runs."""

    watched: bool = False
    false: dict[int, str] = field(default_factory=dict)
    """By the candidate's line: what does not hold."""
    axes: dict[int, frozenset[int]] = field(default_factory=dict)
    """By the line: for which axes it does not."""

    def clear(self) -> None:
        self.false.clear()
        self.axes.clear()

    def where(self) -> frozenset[tuple[int, int]]:
        """Lines and axes of what does not hold."""
        return frozenset((line, axis) for line, axes in self.axes.items() for axis in axes)

    def look(self, name: str, tensor: Any, values: Any, data: Array) -> None:
        """`data`: the tensor's values as (programs, *shape), of the programs that run."""
        if not self.watched or data.size == 0 or data.dtype.kind not in "iu":
            return
        given = values if isinstance(values, list | tuple | tl.tuple) else [values]
        numbers = [int(item.value if isinstance(item, tl.constexpr) else item) for item in given]
        step = 1
        if tensor.dtype.is_ptr():
            step = max(1, tensor.dtype.element_ty.primitive_bitwidth // 8)
            if name == "multiple_of":
                # What lies further apart than this is placed anew in every process.
                numbers = [min(number, ALIGNMENT) for number in numbers]
        if data.ndim - 1 < len(numbers):
            data = data.reshape(data.shape[0], *([1] * len(numbers)))
        axes = enumerate(zip(_by_axis(data, len(numbers)), numbers, strict=True))
        false = frozenset(at for at, (rows, number) in axes if not holds(name, rows, number, step))
        line = line_now()
        if false and line is not None:
            shown = ", ".join(map(str, numbers))
            self.false.setdefault(line, f"tl.{name}(..., [{shown}])")
            self.axes[line] = self.axes.get(line, frozenset()) | false


def _by_axis(data: Array, rank: int) -> Sequence[Array]:
    """For each axis of a block, its lanes as the last axis and all else as the first."""
    lines = data.astype(np.int64)
    return [
        np.moveaxis(lines, axis + 1, -1).reshape(-1, lines.shape[axis + 1]) for axis in range(rank)
    ]


def holds(name: str, rows: Array, number: int, step: int) -> bool:
    """Whether the hint `tl.<name>(..., number)` is true for the lanes along the last axis.

    `step`: the difference of consecutive values; for pointers the size of an element in bytes.
    """
    if number <= 1:
        return True
    if name == "multiple_of":
        return bool((rows[:, :: _run(rows, step)] % number == 0).all())
    size = rows.shape[-1]
    group = min(number, size)
    if size % group:
        return False
    away = np.diff(rows.reshape(rows.shape[0], -1, group), axis=-1)
    return bool((away == (step if name == "max_contiguous" else 0)).all())


def _run(rows: Array, step: int) -> int:
    """The largest power of two such that, in all rows, each aligned group of so many lanes has consecutive values."""
    size = rows.shape[-1]
    follows = (np.diff(rows, axis=-1) == step).all(axis=0)
    run = 1
    while 2 * run <= size and size % (2 * run) == 0 and bool(follows[run - 1 :: 2 * run].all()):
        run *= 2
    return run
