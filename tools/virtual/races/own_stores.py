"""Within one program: a thread that loads what another thread stored, with no barrier between the two.

Threads of one program run at different times. What each stores in global memory the others may load
after `tl.debug_barrier()`, or once all have waited for the value of an atomic; a thread may always load
what it stored itself. Which lanes a thread has, the compiled code says, for each access by itself.

A copy through a tensor descriptor (TMA) sees global memory through the asynchronous proxy: what a plain store has
written before, it sees only after `fence.proxy.async`, whatever barriers there are (PTX ISA, "Proxies"). Triton 3.9
puts such a fence for shared memory alone (seen in the PTX of a store, a barrier and a descriptor's load for sm_90).

`tl.debug_barrier()` is `ttg.barrier`, which becomes `bar.sync 0`: it keeps the threads of one block of a
cluster, and with `num_ctas=2` a program has two of these (seen in the PTX of Triton 3.9 for sm_90).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled.fetched_ahead import Ahead
from kernelagent.tools.virtual.compiled.memory_operations import Threads
from kernelagent.tools.virtual.compiled.synchronising import line_now, lines_now
from kernelagent.tools.virtual.executor.launch import AccessKind, MemoryFault
from kernelagent.tools.virtual.races.bulk_stores import BulkStores
from kernelagent.tools.virtual.races.one_thread import OneThread
from kernelagent.tools.virtual.races.overwrites import Overwrites
from kernelagent.tools.virtual.races.updates import Atomic


@dataclass(frozen=True)
class _Stored:
    """One store: addresses of all its lanes, and which of them were switched on."""

    pointers: Array
    mask: Array
    item_bytes: int
    low: int
    high: int
    atomic: bool
    spread: str | None
    """How its lanes are spread over threads; None where that is not plain."""


class OwnStores:
    """What the program that runs has stored since its last barrier."""

    def __init__(self) -> None:
        self.watched = False
        self.non_synchronizing_atomics: frozenset[int] = frozenset()
        """Lines of atomics whose value decides nothing."""
        self.ahead: Ahead = {}
        """Loads that are made rounds before they are used, with the lines of their loops."""
        self.one_thread = OneThread()
        self.overwrites = Overwrites(self.one_thread)
        self.bulk = BulkStores()
        self._in_loops: list[tuple[frozenset[int], _Stored]] = []
        """Only where the compiled code makes loads of a pipelined loop ahead: every store of the running program,
        with its source line and the lines of its callers. Kept at a barrier, because a barrier does not stop such a
        load from being made before the store."""
        self._before_copies: list[_Stored] = []
        """Every plain store of the running program, where it has loads that are copied through a descriptor."""
        self._since: list[_Stored] = []
        self._low, self._high = 1 << 64, 0

    @property
    def threads(self) -> Threads:
        """Of the kernel that runs."""
        return self.overwrites.threads

    @threads.setter
    def threads(self, threads: Threads) -> None:
        self.overwrites.threads = self.bulk.threads = threads

    def program_begins(self) -> None:
        """The next program, which has stored nothing yet."""
        self._forget()
        self.one_thread.begins(self.threads.barriers)
        self._in_loops.clear()
        self._before_copies.clear()
        self.bulk.program_begins()

    def barrier(self) -> None:
        """All threads wait for each other, unless the program has several blocks."""
        if self.threads.barriers_for_all:
            self._forget()

    def _forget(self) -> None:
        self._since.clear()
        self._low, self._high = 1 << 64, 0
        self.overwrites.forget()

    def updated(
        self,
        pointers: Array,
        mask: Array,
        item_bytes: int,
        update: Atomic | None = None,
        changed: Array | None = None,
    ) -> None:
        """By an atomic; where it is of one lane and its value decides anything, all threads wait for that.

        `update` and `changed`: what it did and where, unless it was kept from doing it.
        """
        self.one_thread.accesses(pointers.size)
        self._checked("atomic", pointers, mask, item_bytes)
        if self.watched:
            self.bulk.accessed("atomic", line_now(), pointers, mask, item_bytes)
        if self.watched and update is not None and changed is not None:
            self.overwrites.updated(line_now(), pointers, mask, item_bytes, update, changed)
        self._keep("atomic", pointers, mask, item_bytes, update, changed)
        if self._since and pointers.size == 1 and line_now() not in self.non_synchronizing_atomics:
            self.barrier()

    def stored(
        self, pointers: Array, mask: Array, item_bytes: int, *, in_bulk: bool = False
    ) -> None:
        """Before or after it happens; `in_bulk`: as a copy through a descriptor."""
        self.one_thread.accesses(pointers.size)
        self._keep("store", pointers, mask, item_bytes, in_bulk=in_bulk)

    def storing(
        self, pointers: Array, mask: Array, values: Array, *, in_bulk: bool = False
    ) -> None:
        """Before a store happens whose values stay; raises `MemoryFault` where its order with others is open."""
        self.one_thread.accesses(pointers.size)
        if self.watched:
            self.overwrites.storing(line_now(), pointers, mask, values)
            self.bulk.storing(line_now(), pointers, mask, values, in_bulk=in_bulk)

    def loaded(
        self, pointers: Array, mask: Array, item_bytes: int, *, copied: bool = False
    ) -> None:
        """Raises `MemoryFault` where threads load what others stored, or what a loop has not stored yet."""
        self.one_thread.accesses(pointers.size)
        if self._in_loops:
            self._require_stored_in_time(pointers, mask, item_bytes)
        if copied and self._before_copies:
            self._require_seen_by_copies(pointers, mask, item_bytes)
        self._checked("load", pointers, mask, item_bytes)
        if self.watched and not copied:
            self.bulk.accessed("load", line_now(), pointers, mask, item_bytes)
            self.overwrites.keep("load", line_now(), pointers, mask, item_bytes)

    def _keep(
        self,
        kind: AccessKind,
        pointers: Array,
        mask: Array,
        item_bytes: int,
        update: Atomic | None = None,
        changed: Array | None = None,
        *,
        in_bulk: bool = False,
    ) -> None:
        if not self.watched:
            return
        everywhere = np.broadcast_to(mask, pointers.shape)
        where = pointers[everywhere]
        if not where.size:
            return
        low, high = int(where.min()), int(where.max()) + item_bytes
        item = _Stored(
            np.array(pointers),
            np.array(everywhere),
            item_bytes,
            low,
            high,
            kind == "atomic",
            self.threads.spread(kind, line_now(), pointers.shape),
        )
        self._since.append(item)
        line = line_now()
        self.overwrites.keep(kind, line, item.pointers, item.mask, item_bytes, update, changed)
        self.bulk.wrote(line, item.pointers, item.mask, item_bytes, in_bulk=in_bulk)
        if self.ahead:
            self._in_loops.append((frozenset(lines_now()), item))
        if self.threads.copied:
            self._before_copies.append(item)
        self._low, self._high = min(self._low, low), max(self._high, high)

    def _checked(self, kind: AccessKind, pointers: Array, mask: Array, item_bytes: int) -> None:
        """Of atomics among each other `overwrites` knows."""
        if not self._since or not self.watched:
            return
        everywhere = np.broadcast_to(mask, pointers.shape)
        where = pointers[everywhere]
        if not where.size:
            return
        low, high = int(where.min()), int(where.max()) + item_bytes
        if high <= self._low or low >= self._high:
            return
        count, spread = 0, self.threads.spread(kind, line_now(), pointers.shape)
        for item in self._since:
            if low < item.high and item.low < high and not (kind == "atomic" and item.atomic):
                same = spread is not None and item.spread == spread
                count = max(count, _from_others(item, pointers, everywhere, item_bytes, same=same))
        if count:
            self.one_thread.found(
                MemoryFault(
                    "data_race",
                    f"{count} lanes load what other threads of the same program stored, with no barrier "
                    f"between: the threads of a program run at different times{self._advice()}",
                    {"lanes": count},
                )
            )

    def _advice(self) -> str:
        """What helps."""
        if not self.threads.barriers_for_all:
            return ", and with num_ctas > 1 tl.debug_barrier() keeps those of one block only: use num_ctas=1"
        why = (
            "; a single number, or a block with fewer lanes than threads, is stored by one thread and loaded by "
            "all, and the compiler may spread a block over threads in another way for each access"
        )
        return f"{why}; put tl.debug_barrier() between the two, or keep the values in registers"

    def _require_seen_by_copies(self, pointers: Array, mask: Array, item_bytes: int) -> None:
        where = pointers[np.broadcast_to(mask, pointers.shape)]
        count = sum(_met(before_copy, where, item_bytes) for before_copy in self._before_copies)
        if count:
            raise MemoryFault(
                "data_race",
                f"a tensor descriptor loads {count} elements that the same program stored: on the GPU such a copy "
                f"sees earlier stores only after a fence between the two proxies of memory, which Triton does not "
                f"put there, and no barrier does it; load them with tl.load, or keep them in registers",
                {"lanes": count},
            )

    def _require_stored_in_time(self, pointers: Array, mask: Array, item_bytes: int) -> None:
        lines = frozenset(lines_now())
        known = self.ahead.get(line_now() or 0, ())
        loops = [loop for loop in known if not lines.isdisjoint(loop)]
        where = pointers[np.broadcast_to(mask, pointers.shape)]
        if not loops or not where.size:
            return
        late = [
            item
            for stored, item in self._in_loops
            if any(not stored.isdisjoint(loop) for loop in loops)
        ]
        count = sum(_met(item, where, item_bytes) for item in late)
        if count:
            raise MemoryFault(
                "data_race",
                f"a pipelined loop loads {count} elements that it stored itself in an earlier round: the compiler "
                f"fetches them some rounds ahead, before they are stored, and no barrier keeps it from that; carry "
                f"them in registers, or give the loop tl.range(..., num_stages=1)",
                {"lanes": count},
            )


def _from_others(
    item: _Stored, pointers: Array, mask: Array, item_bytes: int, *, same: bool
) -> int:
    """How many lanes load a byte that another thread wrote; `same`: both have their lanes in the same threads."""
    rest = mask
    if same and item.pointers.shape == pointers.shape and item.item_bytes == item_bytes:
        rest = mask & ~(item.mask & (item.pointers == pointers))
    return _met(item, pointers[rest], item_bytes)


def _met(item: _Stored, where: Array, item_bytes: int) -> int:
    """How many of these places the store wrote to."""
    if not where.size or int(where.max()) + item_bytes <= item.low or item.high <= int(where.min()):
        return 0
    start = np.sort(item.pointers[item.mask])
    at = np.searchsorted(start, where + np.uint64(item_bytes), side="left")
    before = np.maximum(at, 1) - 1
    met = (at > 0) & (start[before] + np.uint64(item.item_bytes) > where)
    return int(np.count_nonzero(met))
