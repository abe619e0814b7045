"""Within one program: a lane that loads what another lane stored, with no barrier between the two.

Threads of one program run at different times. What each stores in global memory the others may load
after `tl.debug_barrier()`, or once all have waited for the value of an atomic; a lane may always load
what it stored itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelagent.tools.virtual.launch import MemoryFault
from kernelagent.tools.virtual.numerics import Array
from kernelagent.tools.virtual.synchronising import line_now


@dataclass(frozen=True)
class _Stored:
    """One store: addresses of all its lanes, and which of them were switched on."""

    pointers: Array
    mask: Array
    item_bytes: int
    low: int
    high: int
    atomic: bool = False


class OwnStores:
    """What the program that runs has stored since its last barrier."""

    def __init__(self) -> None:
        self.watched = False
        self.non_synchronizing_atomics: frozenset[int] = frozenset()
        """Lines of atomics whose value decides nothing."""
        self._since: list[_Stored] = []
        self._low, self._high = 1 << 64, 0

    def forget(self) -> None:
        """A barrier, or the next program."""
        self._since.clear()
        self._low, self._high = 1 << 64, 0

    def updated(self) -> None:
        """An atomic of one lane: all threads wait for its value, where it decides anything."""
        if self._since and line_now() not in self.non_synchronizing_atomics:
            self.forget()

    def stored(
        self, pointers: Array, mask: Array, item_bytes: int, *, atomic: bool = False
    ) -> None:
        """Before or after it happens."""
        if not self.watched:
            return
        everywhere = np.broadcast_to(mask, pointers.shape)
        where = pointers[everywhere]
        if not where.size:
            return
        low, high = int(where.min()), int(where.max()) + item_bytes
        self._since.append(
            _Stored(np.array(pointers), np.array(everywhere), item_bytes, low, high, atomic)
        )
        self._low, self._high = min(self._low, low), max(self._high, high)

    def loaded(
        self, pointers: Array, mask: Array, item_bytes: int, *, atomic: bool = False
    ) -> None:
        """Raises `MemoryFault` where lanes load what other lanes stored; by `atomic`s, what they updated they may."""
        if not self._since or not self.watched:
            return
        everywhere = np.broadcast_to(mask, pointers.shape)
        where = pointers[everywhere]
        if not where.size:
            return
        low, high = int(where.min()), int(where.max()) + item_bytes
        if high <= self._low or low >= self._high:
            return
        count = 0
        for one in self._since:
            if low < one.high and one.low < high and not (atomic and one.atomic):
                count = max(count, _from_others(one, pointers, everywhere, item_bytes))
        if count:
            raise MemoryFault(
                "data_race",
                f"{count} lanes load what other lanes of the same program stored, with no barrier "
                f"between: the threads of a program run at different times; put tl.debug_barrier() "
                f"between the two, or keep the values in registers",
                {"lanes": count},
            )


def _from_others(one: _Stored, pointers: Array, mask: Array, item_bytes: int) -> int:
    """How many lanes load a byte that another lane of this store wrote."""
    rest = mask
    if one.pointers.shape == pointers.shape and one.item_bytes == item_bytes:
        rest = mask & ~(one.mask & (one.pointers == pointers))
    where = pointers[rest]
    if not where.size:
        return 0
    start = np.sort(one.pointers[one.mask])
    at = np.searchsorted(start, where + np.uint64(item_bytes), side="left")
    before = np.maximum(at, 1) - 1
    met = (at > 0) & (start[before] + np.uint64(one.item_bytes) > where)
    return int(np.count_nonzero(met))
