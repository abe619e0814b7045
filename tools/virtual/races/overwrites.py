"""Within one program: a store or an atomic over what other threads of it access just before, with no barrier between.

A load that stands before a store in the text is made before it by the same thread alone; of two stores of different
threads either may come last. `tl.debug_barrier()` orders them, and so do the barriers that the compiler puts where
threads exchange values (`barriers`). A store of what the place holds already changes nothing.

Atomics are no exception: that nothing comes between their load and their store does not order them among each other
(`updates` has the ones that may come in any order). Triton 3.9 puts a barrier before each that releases and after each
that acquires, so that those with `sem="relaxed"` are left (seen in the PTX for sm_90).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from triton._C.libtriton import interpreter as native

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled.memory_operations import Threads
from kernelagent.tools.virtual.executor.launch import AccessKind, MemoryFault
from kernelagent.tools.virtual.provenance.journal import Doubtful, Doubts, Journal
from kernelagent.tools.virtual.races.one_thread import OneThread
from kernelagent.tools.virtual.races.updates import Atomic

_DID: dict[AccessKind, str] = {
    "load": "other threads of the same program load",
    "store": "other threads of the same program store",
    "atomic": "other threads of the same program update",
}


@dataclass(frozen=True)
class _Earlier:
    """One access: addresses of all its lanes, and which of them were switched on."""

    kind: AccessKind
    line: int | None
    pointers: Array | None
    """None: they follow each other from `low`."""
    mask: Array | None
    """None: all are switched on."""
    shape: tuple[int, ...]
    item_bytes: int
    low: int
    high: int
    update: Atomic | None = None
    """Of an atomic: what it does."""
    changed: Array | None = None
    """Of an atomic: where memory was another afterwards."""
    number: int | None = None
    """Of a load: its number in the program, where the program can be run again."""

    @property
    def lanes(self) -> Array:
        if self.pointers is not None:
            return self.pointers
        count = (self.high - self.low) // self.item_bytes
        steps = np.arange(count, dtype=np.uint64) * np.uint64(self.item_bytes)
        return (np.uint64(self.low) + steps).reshape(self.shape)


@dataclass
class _OfALine:
    """Accesses of one kind on one line, and what they reach over together."""

    every: list[_Earlier] = field(default_factory=list)
    low: int = 1 << 64
    high: int = 0


class Overwrites:
    """What the program that runs has loaded and stored since its last barrier."""

    def __init__(self, one_thread: OneThread | None = None) -> None:
        self._one_thread = one_thread or OneThread()
        self.threads = Threads()
        self.journal: Journal | None = None
        """Of the program that runs, where it can be run again."""
        self.doubts = Doubts()
        """Loads whose values are open, which is a fault unless nothing hangs on them: then they are looked at at the end."""
        self._since: dict[tuple[AccessKind, int | None], _OfALine] = {}

    def forget(self) -> None:
        """All threads have waited for each other, or another program begins."""
        self._since.clear()

    def keep(
        self,
        kind: AccessKind,
        line: int | None,
        pointers: Array,
        mask: Array,
        item_bytes: int,
        update: Atomic | None = None,
        changed: Array | None = None,
    ) -> None:
        """An access that happened; not a load through a descriptor, which all threads wait for."""
        whole = bool(mask.all())
        where = pointers if whole else pointers[np.broadcast_to(mask, pointers.shape)]
        if not where.size:
            return
        low, high = int(where.min()), int(where.max()) + item_bytes
        row = whole and high - low == where.size * item_bytes
        row = row and bool((np.diff(pointers.ravel()) == np.uint64(item_bytes)).all())
        known = self._since.setdefault((kind, line), _OfALine())
        known.low, known.high = min(known.low, low), max(known.high, high)
        known.every.append(
            _Earlier(
                kind,
                line,
                None if row else pointers,
                None if whole else np.broadcast_to(mask, pointers.shape),
                pointers.shape,
                item_bytes,
                low,
                high,
                update,
                changed,
                self.journal.loads if kind == "load" and self.journal is not None else None,
            )
        )

    def storing(self, line: int | None, pointers: Array, mask: Array, values: Array) -> None:
        """Before a store happens; raises `MemoryFault` where its order with earlier accesses is open."""
        if not self._since:
            return
        everywhere = np.broadcast_to(mask, pointers.shape)
        where = pointers[everywhere]
        if not where.size:
            return
        size = values.dtype.itemsize
        near = self._near(where, size)
        changing = everywhere & differs(pointers, everywhere, values) if near else everywhere
        if not near or not changing.any():
            return
        for item in near:
            lanes = self._open(item, ("store", line), pointers, changing, size)
            if lanes is not None:
                count = np.count_nonzero(lanes)
                self._found(
                    item,
                    lanes,
                    line,
                    f"a store overwrites {count} elements that {_DID[item.kind]} before it in the text, with no "
                    f"barrier between: the threads of a program run at different times, and either may come first; "
                    f"put tl.debug_barrier() between the two, or store to other memory",
                )

    def updated(
        self,
        line: int | None,
        pointers: Array,
        mask: Array,
        item_bytes: int,
        update: Atomic,
        changed: Array,
    ) -> None:
        """After an atomic; raises `MemoryFault` where its order with earlier loads and atomics is open, and shows.

        Of two that change nothing the order is nobody's business. What others stored before, `own_stores` looks at.
        """
        everywhere = np.broadcast_to(mask, pointers.shape)
        for item in self._near(pointers[everywhere], item_bytes):
            if item.kind == "store" or (
                item.update is not None and item.update.may_change_places_with(update)
            ):
                continue
            now: tuple[AccessKind, int | None] = ("atomic", line)
            lanes = self._open(item, now, pointers, changed, item_bytes)
            if lanes is None and item.changed is not None and item.changed.any():
                earlier = replace(item, mask=item.changed)
                lanes = self._open(earlier, now, pointers, everywhere, item_bytes)
            if lanes is not None:
                count = np.count_nonzero(lanes)
                self._found(
                    item,
                    lanes,
                    line,
                    f"an atomic updates {count} elements that {_DID[item.kind]} before it in the text, with no "
                    f"barrier between: the threads of a program run at different times, and either may come first; "
                    f"put tl.debug_barrier() between the two",
                )

    def _found(self, item: _Earlier, lanes: Array, line: int | None, message: str) -> None:
        """Raises; of a load whose value may not matter, it is kept in mind."""
        where = {} if line is None else {"line": line}
        fault = MemoryFault("data_race", message, {"lanes": int(lanes.sum()), **where})
        if item.number is None or self._one_thread.alone:
            self._one_thread.found(fault)
            return
        self.doubts.note(item.number, Doubtful(item.lanes, lanes, item.item_bytes), fault)

    def _near(self, where: Array, item_bytes: int) -> list[_Earlier]:
        """Earlier accesses that may meet these places."""
        if not self._since or not where.size:
            return []
        low, high = int(where.min()), int(where.max()) + item_bytes
        return [
            item
            for known in self._since.values()
            if known.low < high and low < known.high
            for item in known.every
            if item.low < high and low < item.high
        ]

    def _open(
        self,
        item: _Earlier,
        then: tuple[AccessKind, int | None],
        pointers: Array,
        changing: Array,
        item_bytes: int,
    ) -> Array | None:
        """Which of the earlier access's lanes are of other threads and meet what is changed; None: none."""
        if not changing.any():
            return None
        lanes = item.lanes
        on = np.ones(item.shape, dtype=bool) if item.mask is None else item.mask
        starts = np.sort(pointers[changing])
        barriers = self.threads.barriers
        first = (item.kind, item.line)
        others = on
        if item.shape == pointers.shape and item.item_bytes == item_bytes:
            own = on & (lanes == pointers)
            others = on & ~own
            mine, its = (
                self.threads.ways_of(kind, number, item.shape) for kind, number in (first, then)
            )
            moved = bool(mine and its and mine.isdisjoint(its))
            # The same lane in another thread: its value came there by an exchange, as far as it came from this load.
            through = moved and met(starts, item_bytes, lanes[own], item.item_bytes) > 0
            if through and barriers.missing(first, then, of_warps=False):
                return on & meeting(starts, item_bytes, lanes, item.item_bytes)
        reached = others & meeting(starts, item_bytes, lanes, item.item_bytes)
        return reached if reached.any() and barriers.missing(first, then) else None


def met(starts: Array, item_bytes: int, where: Array, size: int) -> int:
    """How many of the places of `size` bytes overlap one of `item_bytes` that begins at one of the sorted starts."""
    return int(np.count_nonzero(meeting(starts, item_bytes, where, size))) if where.size else 0


def meeting(starts: Array, item_bytes: int, where: Array, size: int) -> Array:
    """Which they are."""
    at = np.searchsorted(starts, where + np.uint64(size), side="left")
    before = np.maximum(at, 1) - 1
    result: Array = (at > 0) & (starts[before] + np.uint64(item_bytes) > where)
    return result


def differs(pointers: Array, mask: Array, values: Array) -> Array:
    """Where memory holds other bits than those that will be stored."""
    what = np.ascontiguousarray(np.broadcast_to(values, pointers.shape))
    held = native.load(np.ascontiguousarray(pointers), np.ascontiguousarray(mask), what, what.dtype)
    unsigned = f"u{what.dtype.itemsize}"
    result: Array = held.view(unsigned) != what.view(unsigned)
    return result
