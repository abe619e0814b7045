"""Operations that bring numbers to other lanes: gathers, histograms and changes of shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelagent.tools.virtual.arithmetic.elementwise import Handle, make
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.cost.bank_conflicts import BankConflicts
from kernelagent.tools.virtual.executor.launch import MemoryFault
from kernelagent.tools.virtual.operations.conversions import ConvertingBuilder


class RearrangingBuilder(ConvertingBuilder):
    """Where operations between lanes end."""

    def __init__(self) -> None:
        super().__init__()
        self._conflicts = BankConflicts()

    def require_inside(self, src: Handle, indices: Handle, axis: int) -> None:
        """Raises `MemoryFault` for a gather that reaches out of its block, of the programs that run."""
        at, size = self.running(indices.data), src.data.shape[axis]
        if at.size and (int(at.min()) < 0 or int(at.max()) >= size):
            raise MemoryFault(
                "out_of_bounds",
                f"tl.gather with indices from {int(at.min())} to {int(at.max())}, of a block with {size} "
                f"elements along that axis: what it reads then is undefined; clamp the indices first",
                {"size": size},
            )

    def create_gather(self, src: Handle, indices: Handle, axis: int) -> Handle:
        self.require_inside(src, indices, axis)
        self.gathers(indices.data[None], src, axis)
        return super().create_gather(src, indices, axis)

    def gathers(self, indices: Array, src: Handle, axis: int) -> None:
        """Count a gather; `indices`: (programs, *shape), `axis`: of that shape."""
        self.step("exchange")
        if self.count is None or not self.regions.gathers_in_shared:
            return
        shape = src.data.shape[src.data.ndim + 1 - indices.ndim :]
        clocks = round(self._conflicts.clocks(indices, shape, axis, src.data.itemsize))
        self.count("shared", clocks * self.programs_running(), "")
        self.flow.stepped("shared", clocks)

    def require_bins(self, data: Handle, bins: int, mask: Handle | None) -> None:
        """Raises `MemoryFault` for numbers without a bin, of the programs that run."""
        values = data.data if mask is None else np.where(mask.data, data.data, 0)
        held = self.running(values)
        if held.size and (int(held.min()) < 0 or int(held.max()) >= bins):
            raise MemoryFault(
                "out_of_bounds",
                f"tl.histogram with numbers from {int(held.min())} to {int(held.max())} and {bins} bins: where "
                f"those without a bin count is undefined; leave them out by mask=",
                {"bins": bins},
            )

    def create_histogram(self, data: Handle, bins: int, mask: Handle | None) -> Handle:
        self.require_bins(data, bins, mask)
        self.step("exchange")
        return super().create_histogram(data, bins, mask)

    def create_reshape(self, arg: Handle, shape: Any, allow_reorder: bool) -> Handle:
        flat = arg.data.reshape(1, -1)
        flat = reordered(flat) if allow_reorder else flat
        return make(flat.reshape(shape), arg.dtype.scalar)

    def create_cat(self, lhs: Handle, rhs: Handle) -> Handle:
        """`can_reorder`: each thread puts its own elements of both together, so that they take turns."""
        return make(np.stack([lhs.data, rhs.data], axis=1).reshape(-1), lhs.dtype.scalar)


def reordered(rows: Array) -> Array:
    """`can_reorder`: each thread keeps its own elements, so that neighbours do not stay neighbours."""
    return np.concatenate([rows[:, ::2], rows[:, 1::2]], axis=1)
