"""Kernels that load fresh memory which nobody has written: on a GPU it holds what an earlier call left there.

A mark that a kernel finds again there tells it how often it was called, whatever the memory is filled with in
between. So the executor knows of each storage that was made fresh which bytes are still as they were filled,
and notes each load of them. Bytes count as written once a kernel has stored to them, whatever it stored, or once
they hold something else, as after an operation of torch's.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled.synchronising import line_now
from kernelagent.tools.virtual.device.storages.fresh_memory import Bytes, Fill

_KEPT_BYTES = 256 << 20
"""Storages that are remembered from launch to launch, the latest of them."""
_CHANCES = 8.0
_FEW = 3
Flags = NDArray[np.bool_]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Region:
    """One storage of a launch; `unwritten`: of each byte whether it still is as it was filled."""

    low: int
    unwritten: Flags

    @property
    def high(self) -> int:
        return self.low + self.unwritten.size

    def elements(self, size: int) -> Flags:
        """One row of its bytes for each element of so many bytes."""
        return self.unwritten[: self.unwritten.size // size * size].reshape(-1, size)


@dataclass
class Watch:
    """The accesses of one launch."""

    regions: tuple[Region, ...]
    loads: Counter[int] = field(default_factory=Counter)
    """By line of the source: how many elements were loaded that nobody had written."""
    _pending: Counter[int] = field(default_factory=Counter)

    def loaded(self, pointers: Array, mask: Array | None, size: int) -> None:
        """Before or after it happens."""
        for region, elements in self._met(pointers, mask, size):
            count = int(np.count_nonzero(region.elements(size)[elements].any(axis=1)))
            if count:
                self._pending[line_now() or 0] += count

    def stored(self, pointers: Array, mask: Array | None, size: int) -> list[Callable[[], None]]:
        """What was written is; returns what takes that back."""
        undo: list[Callable[[], None]] = []
        for region, elements in self._met(pointers, mask, size):
            rows = region.elements(size)
            before = rows[elements]
            if before.any():
                rows[elements] = False
                undo.append(_put_back(rows, elements, before))
        return undo

    def loaded_runs(self, start: Places, end: Places, size: int) -> None:
        """The same as `loaded`, of stretches of memory from `start` to `end`, each of whole elements."""
        for region, low, lengths in self._met_runs(start, end, size):
            count = 0
            for at, length in _by_length(low, lengths):
                rows = _stretches(region.unwritten, length)[at]
                count += int(np.count_nonzero(rows.reshape(-1, size).any(axis=1)))
            if count:
                self._pending[line_now() or 0] += count

    def stored_runs(self, start: Places, end: Places, size: int) -> list[Callable[[], None]]:
        """The same as `stored`, of such stretches."""
        undo: list[Callable[[], None]] = []
        for region, low, lengths in self._met_runs(start, end, size):
            # All is read before anything is changed: stretches of two lengths may lie over each other.
            found = []
            for at, length in _by_length(low, lengths):
                rows = _stretches(region.unwritten, length)
                found.append((rows, at, rows[at]))
            for rows, at, before in found:
                if before.any():
                    rows[at] = False
                    undo.append(_put_back(rows, at, before))
        return undo

    def _met_runs(
        self, start: Places, end: Places, size: int
    ) -> Iterable[tuple[Region, Places, Places]]:
        """For each storage, where in it the stretches begin, and their bytes; none lies across an end of it."""
        for region in self.regions:
            inside = np.flatnonzero((start < region.high) & (end > region.low))
            if inside.size:
                low = (start[inside] - region.low) // size * size
                yield region, low, (end - start)[inside]

    def keep(self) -> None:
        """What has been noted counts: the programs that did it are not run again."""
        self.loads.update(self._pending)
        self._pending.clear()

    def drop(self) -> None:
        """The programs that did it are run again, in another order."""
        self._pending.clear()

    def _met(
        self, pointers: Array, mask: Array | None, size: int
    ) -> Iterable[tuple[Region, Places]]:
        """For each storage that is touched, which of its elements are."""
        if not pointers.size:
            return
        low, high = int(pointers.min()), int(pointers.max()) + size
        near = [region for region in self.regions if region.low < high and low < region.high]
        if not near:
            return
        where = pointers if mask is None else pointers[np.broadcast_to(mask, pointers.shape)]
        for region in near:
            offset = where.astype(np.int64).ravel() - region.low
            inside = (offset >= 0) & (offset + size <= region.unwritten.size)
            if inside.any():
                yield region, offset[inside] // size


class NeverWritten:
    """Remembers from launch to launch what kernels have stored."""

    def __init__(self) -> None:
        self._masks: OrderedDict[int, Flags] = OrderedDict()
        self._size = 0

    def watch(self, storages: Iterable[tuple[int, Bytes, Fill | None]]) -> Watch | None:
        """A launch on these begins: address, contents and fill of each. None: everything is written."""
        regions = []
        for address, contents, fill in storages:
            if fill is not None and contents.size:
                unwritten = self._unwritten(contents, fill)
                if unwritten is not None:
                    regions.append(Region(address, unwritten))
        return Watch(tuple(regions)) if regions else None

    def _unwritten(self, contents: Bytes, fill: Fill) -> Flags | None:
        known = self._masks.get(fill.serial)
        if known is not None and not known.any():
            return None
        as_filled = _as_filled(contents, fill)
        if known is None or known.size != as_filled.size:
            known = as_filled
            self._remember(fill.serial, known)
        else:
            known &= as_filled
        return known if known.any() else None

    def _remember(self, serial: int, unwritten: Flags) -> None:
        self._masks[serial] = unwritten
        self._size += unwritten.size
        while self._size > _KEPT_BYTES and len(self._masks) > 1:
            self._size -= self._masks.popitem(last=False)[1].size


def _as_filled(contents: Bytes, fill: Fill) -> Flags:
    """Which bytes belong to elements that hold what they were filled with, and not by chance."""
    size = fill.item_bytes
    whole = contents.size // size * size
    # As integers of the elements' size: comparing byte by byte takes ten times as long.
    word = np.dtype(f"u{min(size, 8)}")
    one_word = fill.seed is None and size == word.itemsize
    filled = fill.bytes(size if one_word else whole).view(word)
    alike: Flags = np.equal(contents[:whole].view(word), filled)
    equal = alike if size == word.itemsize else alike.reshape(-1, size // 8).all(axis=1)
    by_chance = _CHANCES * fill.chance * equal.size + _FEW if fill.chance > 2.0**-20 else 0.0
    if int(np.count_nonzero(equal)) <= by_chance and not equal.all():
        equal = np.zeros_like(equal)
    return np.pad(equal.repeat(size), (0, contents.size - whole))


def _by_length(low: Places, lengths: Places) -> Iterable[tuple[Places, int]]:
    """The stretches of each length: of a tile's rows there are two at most, the usual one and that at the edge."""
    for length in np.unique(lengths).tolist():
        yield low[lengths == length], int(length)


def _stretches(flags: Flags, length: int) -> Flags:
    """Row `at` is the stretch of so many bytes that begins there."""
    rows: Flags = np.lib.stride_tricks.sliding_window_view(flags, length, writeable=True)
    return rows


def _put_back(rows: Flags, elements: Places, before: Flags) -> Callable[[], None]:
    def undo() -> None:
        rows[elements] = before

    return undo
