"""Where a kernel's accesses end: observers look first, then the store mode says what is written."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic.numerics import FP8, Array
from kernelagent.tools.virtual.compiled.synchronising import line_now
from kernelagent.tools.virtual.executor.launch import AccessKind, MemoryFault, Observer
from kernelagent.tools.virtual.interpreter.atomics import Combine, bf16_atomic, read, updated
from kernelagent.tools.virtual.provenance.journal import Journal
from kernelagent.tools.virtual.provenance.never_written import Watch
from kernelagent.tools.virtual.races.lane_order import LaneOrder, Update, meet
from kernelagent.tools.virtual.races.own_stores import OwnStores
from kernelagent.tools.virtual.races.races import RaceChecker
from kernelagent.tools.virtual.races.updates import Atomic, swap_of, update_of

_native = stock._interpreter
StoreMode = Literal["execute", "poison", "suppress"]
"""`poison`: every stored value becomes a recognisable wrong one; `suppress`: nothing is written."""
_ORDER = _native.MEM_SEMANTIC
ACQUIRING = (_ORDER.ACQUIRE, _ORDER.ACQUIRE_RELEASE)
RELEASING = (_ORDER.RELEASE, _ORDER.ACQUIRE_RELEASE)
_POISON_INT = 0x5A5A5A5A5A5A5A5B


class Turn(Protocol):
    """Told where an access of the running program begins, and whether it is a plain store."""

    def __call__(self, place: int, *, stores: bool) -> None: ...


_ARTICLES: dict[AccessKind, str] = {"load": "a", "store": "a", "atomic": "an"}


class Memory:
    """Loads, stores and atomics on raw addresses of this process."""

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self.mode: StoreMode = "execute"
        self.watch_lanes = False
        """Refuse a store whose lanes put different values in one place."""
        self.before_access: Turn | None = None
        """Lets another program run first, where programs take turns."""
        self.lane_order: LaneOrder | None = None
        """Of atomics, where programs take turns; None: the first lane is the first."""
        self.lanes_meet = False
        """Whether several lanes of one atomic went to one address, and its result can tell which was the first."""
        self.dropped_atomics: frozenset[int] = frozenset()
        """Lines of atomics whose value nobody looks at."""
        self.fresh: Watch | None = None
        """Notes what is loaded that nobody has written."""
        self.through_descriptor = False
        """Whether the load or store under way is one through a tensor descriptor."""
        self.journal: Journal | None = None
        """Of the program that runs, where it may have to be run again."""
        self.own = OwnStores()
        """What the program that runs has stored, for its own later loads."""

    def load(
        self, pointers: Array, mask: Array, other: Array, kind: Any, *, volatile: bool = False
    ) -> Array:
        copied = self.through_descriptor and line_now() in self.own.threads.copied
        self._pause(pointers)
        require_aligned("load", pointers, mask, kind.itemsize)
        if self.observers:
            for observer in self.observers:
                if isinstance(observer, RaceChecker):
                    observer.next_load(volatile=volatile, copied=copied)
            self._look("load", pointers, mask, kind.itemsize)
        self.own.loaded(pointers, mask, kind.itemsize, copied=copied)
        if self.fresh is not None:
            self.fresh.loaded(pointers, mask, kind.itemsize)
        if self.journal is not None:
            self.journal.loading(pointers, mask)
        values: Array = _native.load(pointers, mask, other, kind)
        return values if self.journal is None else self.journal.loaded(values)

    def store(self, pointers: Array, values: Array, mask: Array, kind: Any) -> None:
        in_bulk = self.through_descriptor and line_now() in self.own.threads.in_bulk
        self._pause(pointers, stores=True)
        require_aligned("store", pointers, mask, values.dtype.itemsize)
        if self.observers:
            for observer in self.observers:
                if isinstance(observer, RaceChecker):
                    observer.next_store(in_bulk=in_bulk)
            self._look("store", pointers, mask, values.dtype.itemsize)
        if self.watch_lanes:
            _require_one_value_each(pointers, values, mask)
        if self.mode == "execute":
            self.own.storing(pointers, mask, values, in_bulk=in_bulk)
        self.own.stored(pointers, mask, values.dtype.itemsize, in_bulk=in_bulk)
        if self.fresh is not None:
            self.fresh.stored(pointers, mask, values.dtype.itemsize)
        if self.mode == "suppress":
            return
        if self.mode == "poison":
            values = poisoned(values, kind)
        if self.journal is not None:
            self.journal.changing(b"store", pointers, mask, values)
        # As of tiles behind the last row: the native store looks at each lane.
        if mask.any():
            _native.store(pointers, values, mask)

    def atomic(
        self,
        pointers: Array,
        values: Array,
        mask: Array,
        kind: Any,
        operation: Any,
        combine: Combine | None,
        order: Any,
    ) -> Array:
        """Read-modify-write; `combine` instead of `operation` for bf16. Returns what was there."""
        self._pause(pointers)
        require_aligned("atomic", pointers, mask, values.dtype.itemsize)
        exchange = operation is not None and operation == _native.RMW_OP.XCHG
        if self.observers:
            self._tell_of(order, exchanges=exchange)
            self._look("atomic", pointers, mask, values.dtype.itemsize)
        if self.mode != "execute":
            self.own.updated(pointers, mask, values.dtype.itemsize)
        if self.fresh is not None:
            if not exchange or not self._is_dropped():
                self.fresh.loaded(pointers, mask, values.dtype.itemsize)
            self.fresh.stored(pointers, mask, values.dtype.itemsize)
        if self.mode == "suppress":
            return read(pointers, mask, values.dtype)
        if self.mode == "poison" and not (exchange and kind.is_int()):
            # An integer exchange may release a lock as well as store a result; a kernel that spins forever
            # on a poisoned lock would say nothing.
            old = read(pointers, mask, values.dtype)
            _native.store(pointers, poisoned(np.array(values), kind), mask)
            return old

        def apply(where: Array, what: Array, use: Array) -> Array:
            if combine is not None:
                return bf16_atomic(where, what, use, combine)
            return updated(operation, where, what, use, order)

        if self.journal is not None:
            self.journal.changing(repr(operation).encode(), pointers, mask, values)
        before = self._before(pointers, mask, values.dtype)
        dropped = self._is_dropped()
        old = self._lane_after_lane(apply, pointers, values, mask, shown=exchange or not dropped)
        if before is not None:
            done = update_of(combine or operation, values, mask, dropped=dropped)
            self._updated(pointers, mask, before, done)
        return old

    def atomic_load(
        self, pointers: Array, mask: Array, other: Array, kind: Any, order: Any
    ) -> Array:
        """An atomic that changes nothing; where it is of one lane and its value decides, all threads wait for it."""
        self._pause(pointers)
        require_aligned("atomic", pointers, mask, kind.itemsize)
        if self.observers:
            for observer in self.observers:
                if isinstance(observer, RaceChecker):
                    observer.next_atomic_load(acquires=order in ACQUIRING)
            self._look("load", pointers, mask, kind.itemsize)
        self.own.loaded(pointers, mask, kind.itemsize)
        if pointers.size == 1 and line_now() not in self.own.non_synchronizing_atomics:
            self.own.barrier()
        if self.fresh is not None:
            self.fresh.loaded(pointers, mask, kind.itemsize)
        if self.journal is not None:
            self.journal.loading(pointers, mask)
        values: Array = _native.load(pointers, mask, other, kind)
        return values if self.journal is None else self.journal.loaded(values)

    def own_only(self, pointers: Array, mask: Array, item_bytes: int) -> None:
        """An atomic that is one within its program only: to others a load and a store."""
        if self.observers:
            self._look("load", pointers, mask, item_bytes)
            self._look("store", pointers, mask, item_bytes)

    def compare_and_swap(
        self, pointers: Array, expected: Array, values: Array, order: Any
    ) -> Array:
        """A real swap in every mode but `suppress`: locks must go on working."""
        self._pause(pointers)
        mask = np.ones(pointers.shape, dtype=bool)
        require_aligned("atomic", pointers, mask, values.dtype.itemsize)
        if self.observers:
            self._tell_of(order, swaps=True)
            self._look("atomic", pointers, mask, values.dtype.itemsize)
        if self.mode != "execute":
            self.own.updated(pointers, mask, values.dtype.itemsize)
        if self.fresh is not None:
            self.fresh.loaded(pointers, mask, values.dtype.itemsize)
            self.fresh.stored(pointers, mask, values.dtype.itemsize)
        if self.mode == "suppress":
            return read(pointers, mask, values.dtype)
        if self.journal is not None:
            self.journal.changing(b"swap", pointers, mask, values, np.asarray(expected))
        before = self._before(pointers, mask, values.dtype)
        pairs = np.arange(pointers.size).reshape(pointers.shape)
        old, new = (np.broadcast_to(part, pointers.shape).ravel() for part in (expected, values))

        def apply(where: Array, which: Array, use: Array) -> Array:
            array: Array = _native.atomic_cas(
                where, np.ascontiguousarray(old[which]), np.ascontiguousarray(new[which]), order
            )
            return array

        result = self._lane_after_lane(apply, pointers, pairs, mask, shown=True)
        if before is not None:
            self._updated(pointers, mask, before, swap_of(np.asarray(expected), values))
        return result

    def _before(self, pointers: Array, mask: Array, kind: Any) -> Array | None:
        """What an atomic finds, where it is of interest what it changes."""
        wanted = self.own.watched and self.mode == "execute"
        return read(pointers, mask, kind) if wanted else None

    def _updated(self, pointers: Array, mask: Array, before: Array, done: Atomic) -> None:
        unsigned = f"u{before.dtype.itemsize}"
        after = read(pointers, mask, before.dtype)
        changed = np.asarray(after.view(unsigned) != before.view(unsigned))
        self.own.updated(pointers, mask, before.dtype.itemsize, done, changed)

    def _lane_after_lane(
        self, apply: Update, pointers: Array, values: Array, mask: Array, *, shown: bool
    ) -> Array:
        """As many at a time as the lanes' order has it; `shown`: the result can tell which of several lanes was the first."""
        if pointers.size > 1 and shown and not self.lanes_meet:
            self.lanes_meet = meet(pointers, mask)
        if self.lane_order is None or pointers.size == 1:
            return apply(pointers, values, mask)
        return self.lane_order.apply(apply, pointers, values, mask, lambda: self._pause(pointers))

    def _pause(self, pointers: Array, *, stores: bool = False) -> None:
        if self.before_access is not None:
            self.before_access(int(pointers.flat[0]) if pointers.size else 0, stores=stores)

    def _is_dropped(self) -> bool:
        return bool(self.dropped_atomics) and line_now() in self.dropped_atomics

    def _tell_of(self, order: Any, *, exchanges: bool = False, swaps: bool = False) -> None:
        for observer in self.observers:
            if isinstance(observer, RaceChecker):
                observer.next_atomic(
                    acquires=order in ACQUIRING,
                    releases=order in RELEASING,
                    exchanges=exchanges,
                    swaps=swaps,
                )

    def _look(self, kind: AccessKind, pointers: Array, mask: Array, item_bytes: int) -> None:
        lanes = pointers.size
        flat = pointers.ravel() if mask.all() else pointers[np.broadcast_to(mask, pointers.shape)]
        if flat.size:
            for observer in self.observers:
                observer.access(kind, flat, item_bytes, lanes)


def require_aligned(kind: AccessKind, pointers: Array, mask: Array, item_bytes: int) -> None:
    """Raises `MemoryFault` for an address that is no multiple of the element's size.

    CUDA C++ Programming Guide, "Device Memory Accesses": data of 2, 4 or 8 bytes must be naturally aligned. A GPU
    ends the program with "misaligned address".
    """
    if item_bytes == 1 or not pointers.size:
        return
    low = np.uint64(item_bytes - 1)
    if not int(np.bitwise_or.reduce(pointers, axis=None)) & int(low):
        return
    odd = ((pointers & low) != 0) & mask
    if odd.any():
        count = int(np.count_nonzero(odd))
        raise MemoryFault(
            "out_of_bounds",
            f"misaligned address: {_ARTICLES[kind]} {kind} of {item_bytes} bytes in {count} of {pointers.size} lanes at addresses "
            f"that are no multiple of {item_bytes}, which a GPU does not do; read such data in elements of their "
            f"own size",
            {"lanes": count, "bytes": item_bytes},
        )


def _require_one_value_each(pointers: Array, values: Array, mask: Array) -> None:
    """Raises `MemoryFault` when one store gives one address two values: the last lane is not defined."""
    everywhere = np.broadcast_to(mask, pointers.shape)
    where = pointers[everywhere]
    if where.size < 2 or bool((where[1:] > where[:-1]).all()):
        return
    what = np.broadcast_to(values, pointers.shape)[everywhere]
    order = np.argsort(where, kind="stable")
    where, bits = where[order], what[order].view(f"u{what.dtype.itemsize}")
    torn = (where[1:] == where[:-1]) & (bits[1:] != bits[:-1])
    if torn.any():
        raise MemoryFault(
            "data_race",
            f"one store puts different values of {int(torn.sum()) + 1} lanes in the same place; "
            f"which of them stays is not defined: reduce first, or use an atomic",
            {"lanes": int(torn.sum()) + 1},
        )


def poisoned(values: Array, kind: Any) -> Array:
    """The wrong pattern for a value of this type: NaN, a large odd number, or the other boolean."""
    kind = kind.scalar
    if values.dtype == np.bool_:
        return ~values
    if values.dtype.kind == "f":
        return np.full_like(values, np.nan)
    if kind == tl.bfloat16:
        return np.full_like(values, 0x7FFF)
    if kind in FP8:
        return np.full_like(values, 0x7F)
    bits = 8 * values.dtype.itemsize
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    pattern = np.array(_POISON_INT & ((1 << bits) - 1), dtype=np.uint64).astype(unsigned)
    return np.full(values.shape, pattern.view(values.dtype), dtype=values.dtype)


def all_ones(shape: tuple[int, ...], kind: Any) -> Array:
    """Every bit set: NaN for floating types, -1 or the largest value for integers."""
    dtype = np.dtype(kind)
    if dtype == np.bool_:
        return np.ones(shape, dtype=dtype)
    ones: Array = np.full(shape, (1 << 8 * dtype.itemsize) - 1, dtype=f"u{dtype.itemsize}").view(
        dtype
    )
    return ones
