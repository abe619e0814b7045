"""Memory operations of many programs at once; what they touch is kept, and can be taken back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.batched.accesses import (
    Access,
    Int64Array,
    NotBatchable,
    Regular,
    Runs,
    TooManyTogether,
    regular,
    runs_of_lanes,
    runs_of_rows,
)
from kernelagent.tools.virtual.batched.storages import Storage
from kernelagent.tools.virtual.compiled.memory_operations import Threads
from kernelagent.tools.virtual.compiled.synchronising import line_now
from kernelagent.tools.virtual.executor.launch import AccessKind, TensorArgument
from kernelagent.tools.virtual.interpreter.atomics import bf16_atomic, updated
from kernelagent.tools.virtual.interpreter.memory import (
    RELEASING,
    StoreMode,
    all_ones,
    poisoned,
)
from kernelagent.tools.virtual.provenance.never_written import Watch
from kernelagent.tools.virtual.races.updates import update_of

_native = stock._interpreter
_RMW = _native.RMW_OP
_ORDER_FREE = (
    _RMW.ADD, _RMW.MIN, _RMW.UMIN, _RMW.MAX, _RMW.UMAX, _RMW.AND, _RMW.OR, _RMW.XOR,
)  # fmt: skip

_MOST_LANES = 1 << 21
"""Lanes of all programs in one operation, which bounds what its arrays take."""
MOST_RUNS = 1 << 21
"""Stretches of memory that all programs access, which are kept until they end: some 200 bytes each."""

_LONG_RUNS = 8
"""Lanes of a stretch from which on it is faster looked at as one."""


@dataclass(frozen=True)
class _Lanes:
    """One operation's lanes, of the programs that run: both arrays (programs, *shape)."""

    pointers: Array
    mask: Array | None
    """None: all are switched on. (1, *shape) where it is the same in all programs."""
    places: Int64Array
    """The programs' places in the chunk."""
    rows: Regular | None
    storage: Storage | None
    """The one that holds all lanes that are on; None: there are several, or none is known."""

    @property
    def nothing_is_on(self) -> bool:
        """As of tiles behind the last row; the native functions look at each lane even so."""
        return self.mask is not None and not self.mask.any()

    @property
    def moved(self) -> tuple[Storage, Regular] | None:
        """Where whole rows can be moved at once, the storage and the rows."""
        if self.storage is None or self.rows is None or self.pointers.ndim < 2:
            return None
        return self.storage, self.rows

    def home_of(self, kind: np.dtype[Any]) -> Storage | None:
        """The storage, where addresses of such elements are places in it."""
        return self.storage if self.storage is not None and self.storage.holds(kind) else None

    @property
    def full_mask(self) -> Array:
        if self.mask is None:
            return np.ones(self.pointers.shape, dtype=bool)
        return np.ascontiguousarray(np.broadcast_to(self.mask, self.pointers.shape))


class BatchedMemory:
    """Loads, stores and atomics of a chunk of programs."""

    def __init__(self) -> None:
        self.mode: StoreMode = "execute"
        self.watch_bounds = False
        """Give up a chunk that reaches out of the launch's storages: the reference names the fault."""
        self.watch_lanes = False
        """Give up a chunk whose threads may come in another order than its lanes."""
        self.active: Array | None = None
        """Which programs of the chunk run just now, as booleans; None: all."""
        self.result_unused = False
        """Whether the kernel drops the result of the atomic under way."""
        self.order_matters = False
        """Whether an atomic's value was used in this launch."""
        self.in_while_loop = 0
        self.barriers = 0
        """How many of them the chunk has passed."""
        self.through_descriptor = False
        """Whether the load or store under way is one through a tensor descriptor."""
        self.threads = Threads()
        """Of the kernel that runs."""
        self.fresh: Watch | None = None
        """Notes what is loaded that nobody has written."""
        self.accesses: list[Access] = []
        self.largest = 1
        """The most lanes that one operation of a program had so far."""
        self.most_runs = MOST_RUNS
        self.most_programs: int | None = None
        """With more of them at a time, this launch's programs access more than can be kept."""
        self._runs = 0
        self._everybody: Int64Array = np.zeros(1, dtype=np.int64)
        self._undo: list[Callable[[], None]] = []
        self._storages: list[Storage] = []
        self._lows = self._highs = np.zeros(0, dtype=np.int64)

    def launch_begins(self, tensors: Sequence[TensorArgument]) -> None:
        """The storages that the launch's arguments lie in."""
        self.largest, self.order_matters = 1, False
        self.most_programs = None
        sizes: dict[int, int] = {}
        for item in tensors:
            if item.storage_bytes:
                known = sizes.get(item.storage_address, 0)
                sizes[item.storage_address] = max(known, item.storage_bytes)
        self._storages = [Storage(low, size) for low, size in sorted(sizes.items())]
        self._lows = np.array([item.low for item in self._storages], dtype=np.int64)
        self._highs = np.array([item.high for item in self._storages], dtype=np.int64)

    def chunk_begins(self, programs: int) -> None:
        self._everybody, self.active = np.arange(programs), None
        self.accesses, self._undo, self._runs = [], [], 0
        self.result_unused, self.in_while_loop, self.barriers = False, 0, 0

    def take_back(self) -> None:
        """Memory as it was when the chunk began."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []
        if self.fresh is not None:
            self.fresh.drop()

    @property
    def programs(self) -> int:
        return self._everybody.size

    @property
    def running(self) -> int:
        """How many programs run just now."""
        return self.programs if self.active is None else int(np.count_nonzero(self.active))

    def expect(self, lanes: int) -> None:
        """An operation on so many lanes of each program is about to begin."""
        self.largest = max(self.largest, lanes)
        if lanes * self.programs > _MOST_LANES and self.programs > 1:
            raise TooManyTogether("the arrays of so many programs would be too large")

    # operations; arrays are (programs or 1, *shape)

    def load(self, pointers: Array, mask: Array | None, other: Array | None, kind: Any) -> Array:
        """Values of shape (programs or 1, *shape); undefined for inactive programs."""
        filler = all_ones((1,) * pointers.ndim, kind) if other is None else other
        same = all(item is None or item.shape[0] == 1 for item in (pointers, mask, filler))
        lanes = self._lanes("load", pointers, mask, kind.itemsize, same=same)
        shape = lanes.pointers.shape
        kind = np.dtype(kind)
        values = None if (moved := lanes.moved) is None else moved[0].of_rows(moved[1], kind)
        storage = lanes.home_of(kind)
        if values is not None and values.shape == shape:
            result = values
        elif values is None and storage is not None:
            fill = filler if same else self._of_running(filler, shape)
            result = storage.gathered(lanes.pointers, lanes.mask, fill, kind)
        else:
            result = np.empty(shape, kind)
            result[...] = filler if same else self._of_running(filler, shape)
            if values is not None:
                assert lanes.rows is not None
                result[(slice(None), *lanes.rows.corner)] = values
            elif not lanes.nothing_is_on:
                where = np.ascontiguousarray(lanes.pointers)
                result = _native.load(where, lanes.full_mask, result, kind)
        return result if same else self._of_all(result, lanes.places)

    def store(self, pointers: Array, values: Array, mask: Array | None, kind: Any) -> None:
        """Written at once, unless the mode says otherwise."""
        size = values.dtype.itemsize
        lanes = self._lanes("store", pointers, mask, size)
        if self.mode == "suppress" or lanes.nothing_is_on:
            return
        if self.mode == "poison":
            values = poisoned(values, kind)
        what = self._of_running(values, lanes.pointers.shape)
        if (moved := lanes.moved) is not None:
            home, rows = moved
            before = np.array(home.of_rows(rows, what.dtype))
            self._undo.append(lambda: home.put_rows(rows, before))
            home.put_rows(rows, what[(slice(None), *rows.corner)])
            return
        if (storage := lanes.home_of(what.dtype)) is not None:
            self._undo.append(storage.scattered(lanes.pointers, lanes.mask, what))
            return
        where, mask = np.ascontiguousarray(lanes.pointers), lanes.full_mask
        self._remember(where, mask, what.dtype)
        _native.store(where, np.ascontiguousarray(what), mask)

    def atomic(
        self,
        pointers: Array,
        values: Array,
        mask: Array | None,
        kind: Any,
        operation: Any,
        combine: Any,
        order: Any,
    ) -> Array:
        """What was there before, of every program; they come one after the other."""
        if operation is not None and operation == _RMW.XCHG:
            raise NotBatchable("an atomic exchange shows the programs' order", always=True)
        if self.in_while_loop:
            raise NotBatchable("an atomic in a while loop waits for other programs", always=True)
        poison, unused = self.mode == "poison", self.result_unused
        self.order_matters |= not unused
        self.result_unused = False
        if poison and not unused:
            raise NotBatchable("a poisoned atomic's result shows the programs' order", always=True)
        like = 0
        if unused and poison:
            like = 1
        elif unused and kind.is_int() and operation in _ORDER_FREE:
            like = 2 + _ORDER_FREE.index(operation)
        lanes = self._lanes("atomic", pointers, mask, values.dtype.itemsize, order_free=like)
        where, keep = np.ascontiguousarray(lanes.pointers), lanes.full_mask
        what = np.ascontiguousarray(self._of_running(values, where.shape))
        done = update_of(combine or operation, what, keep, dropped=unused)
        self.accesses[-1] = replace(self.accesses[-1], releases=order in RELEASING, update=done)
        if self.mode == "suppress":
            old: Array = _native.load(where, keep, np.zeros_like(what), what.dtype)
            return self._of_all(old, lanes.places)
        self._remember(where, keep, what.dtype)
        if poison:
            old = np.zeros_like(what)
            _native.store(where, poisoned(what, kind), keep)
        elif combine is not None:
            old = bf16_atomic(where, what, keep, combine)
        else:
            old = updated(operation, where, what, keep, order)
        return self._of_all(old, lanes.places)

    # how

    def _lanes(
        self,
        kind: AccessKind,
        pointers: Array,
        mask: Array | None,
        item_bytes: int,
        *,
        same: bool = False,
        order_free: int = 0,
    ) -> _Lanes:
        """Looks at the access first; raises `NotBatchable` before anything is touched."""
        shape = pointers.shape[1:]
        self.expect(math.prod(shape))
        if mask is not None and mask.all():
            mask = None
        places = self._everybody if self.active is None else np.flatnonzero(self.active)
        if same:
            seen = places[:1]
        else:
            seen = places
            pointers = self._of_running(pointers, (places.size, *shape))
            if mask is not None and mask.shape[0] > 1:
                mask = self._of_running(mask, (places.size, *shape))
                # A mask of rows and columns differs only where rows end: elsewhere whole rows can be moved.
                if bool((mask[1:] == mask[:1]).all()):
                    mask = mask[:1]
        if mask is not None and mask.shape[1:] != shape:
            mask = np.broadcast_to(mask, (mask.shape[0], *shape))
        usable = mask is None or mask.shape[0] == 1
        rows = regular(pointers, mask, item_bytes) if usable and seen.size else None
        if rows is not None:
            runs, first_lanes = runs_of_rows(rows, item_bytes, seen), None
        else:
            keep = np.ones((1, *shape), bool) if mask is None else mask
            keep = np.broadcast_to(keep, pointers.shape)
            runs, first_lanes = runs_of_lanes(pointers, keep, item_bytes, seen)
        starts = runs.start
        if _misaligned(starts, item_bytes):
            # Lanes of a run follow each other, so that its first speaks for all.
            raise NotBatchable("an access is misaligned")
        homes = self._check(runs)
        if self.fresh is not None:
            # Runs that lie in no storage as a whole are looked at lane by lane.
            whole = runs if homes is not None else None
            self._look_at_fresh(self.fresh, kind, pointers, mask, item_bytes, whole)
        if kind == "store":
            _require_disjoint_lanes(runs)
        if same and places.size > 1:
            runs = runs.for_each_of(places)
        # Its starts as the runs have them: those of `rows` are a view that would keep all pointers alive.
        kept = None if rows is None else replace(rows, start=starts.reshape(rows.start.shape))
        line, through = line_now(), self.through_descriptor
        access = Access(
            kind,
            len(self.accesses),
            runs,
            item_bytes,
            math.prod(shape),
            same,
            order_free,
            self.barriers,
            shape,
            kept,
            None if same else first_lanes,
            spread=self.threads.spread(kind, line, shape),
            copied=through and kind == "load" and line in self.threads.copied,
            in_bulk=through and kind == "store" and line in self.threads.in_bulk,
            line=line,
        )
        self.accesses.append(access)
        self._runs += runs.start.size
        if self._runs > self.most_runs and self.programs > 1:
            self.most_programs = max(1, self.programs // 4)
            raise TooManyTogether("so many programs access too much to be kept")
        storage = None
        if homes is not None and homes.min() == homes.max():
            storage = self._storages[int(homes[0])]
        return _Lanes(pointers, mask, places, rows, storage)

    def _look_at_fresh(
        self,
        fresh: Watch,
        kind: AccessKind,
        pointers: Array,
        mask: Array | None,
        size: int,
        runs: Runs | None,
    ) -> None:
        if runs is not None and runs.start.size * _LONG_RUNS <= pointers.size:
            start, end = runs.start, runs.end
            if kind != "store":
                fresh.loaded_runs(start, end, size)
            if kind != "load":
                self._undo += fresh.stored_runs(start, end, size)
            return
        if kind != "store":
            fresh.loaded(pointers, mask, size)
        if kind != "load":
            self._undo += fresh.stored(pointers, mask, size)

    def _check(self, runs: Runs) -> Int64Array | None:
        """The storage of each run, as its index; None if there are no such storages or runs."""
        if not runs.start.size:
            return None
        index = np.searchsorted(self._lows, runs.start, side="right") - 1
        inside = index >= 0
        if self._highs.size:
            inside &= runs.end <= self._highs[np.maximum(index, 0)]
        if inside.all():
            return index
        if self.watch_bounds:
            raise NotBatchable("an access is out of bounds")
        return None

    def _of_running(self, data: Array, shape: tuple[int, ...]) -> Array:
        if self.active is not None and data.shape[0] > 1:
            data = data[self.active]
        return np.broadcast_to(data, shape) if data.shape != shape else data

    def _of_all(self, data: Array, places: Int64Array) -> Array:
        if places.size == self.programs:
            return data
        wide = np.zeros((self.programs, *data.shape[1:]), data.dtype)
        wide[places] = data
        return wide

    def _remember(self, where: Array, mask: Array, kind: Any) -> None:
        before = _native.load(where, mask, np.zeros(where.shape, kind), kind)
        self._undo.append(lambda: _native.store(where, before, mask))


def _misaligned(starts: Int64Array, item_bytes: int) -> bool:
    """Whether some address is no multiple of the element's size; the reference then reports it."""
    return bool(starts.size) and bool(int(np.bitwise_or.reduce(starts)) & (item_bytes - 1))


def _require_disjoint_lanes(runs: Runs) -> None:
    """Raises `NotBatchable` if one store of a program writes an address twice; the reference then reports it."""
    same = runs.program[1:] == runs.program[:-1]
    if not (same & (runs.start[1:] < runs.end[:-1])).any():
        return
    order = np.lexsort((runs.start, runs.program))
    program, start, end = runs.program[order], runs.start[order], runs.end[order]
    if ((program[1:] == program[:-1]) & (start[1:] < end[:-1])).any():
        raise NotBatchable("one store has several lanes for one place")
