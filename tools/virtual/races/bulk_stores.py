"""Within one program: what is done to memory that a store through a tensor descriptor (TMA) may still be writing.

Such a store is a copy out of shared memory that goes on while the program does. It has ended, for the thread that
began it, after `cp.async.bulk.wait_group`, and for the others behind a barrier after that; with `.read` that instruction
waits only until shared memory may be used again (PTX ISA, `cp.async.bulk.wait_group`). Triton 3.9 waits for the end right
behind the store, but in a loop whose stores it pipelines it waits with `.read`, and for the end behind the loop (seen in
the PTX for sm_90). Which of the two it does between a store and an access, the compiled code says (`barriers`).

What a plain store wrote before, such a copy finds in order only after a fence between the two proxies of memory, which
Triton does not put there (`own_stores`): which of the two stays is open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled.memory_operations import Threads
from kernelagent.tools.virtual.executor.launch import AccessKind, MemoryFault
from kernelagent.tools.virtual.races.overwrites import differs, met

_DOES: dict[AccessKind, str] = {"load": "loads", "store": "stores to", "atomic": "updates"}


@dataclass(frozen=True)
class _Written:
    """By one store: sorted addresses of the lanes that were switched on."""

    starts: Array
    item_bytes: int
    line: int | None

    def near(self, low: int, high: int) -> bool:
        """Whether anything that it wrote may lie between these addresses."""
        return int(self.starts[0]) < high and low < int(self.starts[-1]) + self.item_bytes


class BulkStores:
    """Of the program that runs."""

    def __init__(self) -> None:
        self.threads = Threads()
        self._begun: list[_Written] = []
        self._plain: list[_Written] = []
        """Stores and atomics that were no copies, where the kernel has any."""

    def program_begins(self) -> None:
        """The next program, which has written nothing yet."""
        self._begun.clear()
        self._plain.clear()

    def wrote(
        self, line: int | None, pointers: Array, mask: Array, item_bytes: int, *, in_bulk: bool
    ) -> None:
        """By a store or an atomic; `in_bulk`: as a copy through a descriptor."""
        if not self.threads.in_bulk:
            return
        starts = np.sort(pointers[np.broadcast_to(mask, pointers.shape)])
        if starts.size:
            (self._begun if in_bulk else self._plain).append(_Written(starts, item_bytes, line))

    def accessed(
        self, kind: AccessKind, line: int | None, pointers: Array, mask: Array, item_bytes: int
    ) -> None:
        """Raises `MemoryFault` where a copy that the program has begun may not have ended there."""
        if not self._begun:
            return
        where = pointers[np.broadcast_to(mask, pointers.shape)]
        for item in _near(self._begun, where, item_bytes):
            count = met(item.starts, item.item_bytes, where, item_bytes)
            if count and self.threads.barriers.under_way(item.line, (kind, line)):
                raise MemoryFault(
                    "data_race",
                    f"a program {_DOES[kind]} {count} elements that it stored through a tensor descriptor before: on "
                    f"the GPU such a store is a copy that goes on beside the program, in a loop until the loop ends, "
                    f"and no barrier waits for it; keep the values in registers, use tl.store, or do this behind the loop",
                    {"lanes": count},
                )

    def storing(
        self, line: int | None, pointers: Array, mask: Array, values: Array, *, in_bulk: bool
    ) -> None:
        """Before a store happens whose values stay; raises `MemoryFault` where it may come before an earlier one."""
        if not (self._begun or (in_bulk and self._plain)):
            return
        everywhere = np.broadcast_to(mask, pointers.shape)
        size = values.dtype.itemsize
        plain = self._plain if in_bulk else []
        if not _near([*self._begun, *plain], pointers[everywhere], size):
            return
        changing = everywhere & differs(pointers, everywhere, values)
        self.accessed("store", line, pointers, changing, size)
        where = pointers[changing]
        for item in _near(plain, where, size):
            count = met(item.starts, item.item_bytes, where, size)
            if count:
                raise MemoryFault(
                    "data_race",
                    f"a tensor descriptor stores to {count} elements that the same program stored to before by "
                    f"pointers: on the GPU such a copy comes behind earlier stores only after a fence between the two "
                    f"proxies of memory, which Triton does not put there, and no barrier does it; store once, or "
                    f"by pointers both times",
                    {"lanes": count},
                )


def _near(written: list[_Written], where: Array, item_bytes: int) -> list[_Written]:
    """Those that may meet elements at these places."""
    if not where.size:
        return []
    low, high = int(where.min()), int(where.max()) + item_bytes
    return [item for item in written if item.near(low, high)]
