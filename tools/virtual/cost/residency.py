"""Which sectors of memory the L2 cache holds: the LRU that launches and torch operations share.

Kept by 32-byte sector, because whole lines or pages would make scattered accesses look cheap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.cost.ceilings import SECTOR_BYTES

Pieces = NDArray[np.int64]
"""Addresses in units of 2 KiB, ascending, none twice."""
Slots = NDArray[np.int64]
"""Where a piece's masks stand in the arrays; `AddressSpace` gives them out."""
Masks = NDArray[np.uint64]
"""One bit per sector of a piece."""

SECTORS_PER_PIECE = 64
PIECE_BYTES = SECTORS_PER_PIECE * SECTOR_BYTES
_PIECES_PER_REGION = 8192
_FIRST_RESERVED = 1 << 56
"""Above every address a process can have."""
_STEPS_PER_CACHE = 16
"""Operands streamed concurrently alternate at least this many times per cache capacity."""
_SETTLED_AFTER = 3
"""Caches full of what is streamed after which every further part moves the same."""
_FULL = (1 << SECTORS_PER_PIECE) - 1


class AddressSpace:
    """Gives every piece of memory that is ever touched a place in dense arrays."""

    def __init__(self) -> None:
        self._regions: dict[int, int] = {}
        self._reserved = _FIRST_RESERVED
        self.size = 0
        """How many slots have been given out."""

    def slots_of(self, pieces: Pieces) -> Slots:
        """One slot per piece, the same ones every time."""
        first, last = int(pieces[0]) // _PIECES_PER_REGION, int(pieces[-1]) // _PIECES_PER_REGION
        if first == last:
            return pieces + self._offset(first)
        regions = pieces // _PIECES_PER_REGION
        starts = np.flatnonzero(np.diff(regions, prepend=-1))
        offsets = np.array([self._offset(int(region)) for region in regions[starts]])
        slots: Slots = pieces + np.repeat(offsets, np.diff(starts, append=pieces.size))
        return slots

    def slots_of_any(self, pieces: NDArray[np.int64]) -> Slots:
        """The same for pieces in any order, which may repeat."""
        regions, first, inverse = np.unique(
            pieces // _PIECES_PER_REGION, return_index=True, return_inverse=True
        )
        offsets = np.zeros(regions.size, dtype=np.int64)
        for place in np.argsort(first):
            offsets[place] = self._offset(int(regions[place]))
        slots: Slots = pieces + offsets[inverse.reshape(-1)]
        return slots

    def reserve(self, size: int) -> int:
        """An address for `size` bytes that exist nowhere: a tensor on the meta device."""
        address = self._reserved
        self._reserved += (size // PIECE_BYTES + 1) * PIECE_BYTES
        return address

    def _offset(self, region: int) -> int:
        offset = self._regions.get(region)
        if offset is None:
            offset = self._regions[region] = self.size - region * _PIECES_PER_REGION
            self.size += _PIECES_PER_REGION
        return offset


class SectorSet:
    """A set of sectors, as one mask per slot of an address space."""

    def __init__(self, space: AddressSpace) -> None:
        self._space = space
        self._masks = np.zeros(space.size, dtype=np.uint64)

    def masks(self) -> Masks:
        """One mask for every slot given out so far; writing to it changes the set."""
        if self._masks.size < self._space.size:
            grown = np.zeros(max(self._space.size, 2 * self._masks.size), dtype=np.uint64)
            grown[: self._masks.size] = self._masks
            self._masks = grown
        return self._masks

    def add(self, slots: Slots, masks: Masks) -> Masks:
        """The sectors of `masks` that were not in the set before."""
        held = self.masks()
        before = held[slots]
        held[slots] = before | masks
        new: Masks = masks & ~before
        return new

    def add_in_turn(self, slots: Slots, masks: Masks) -> Masks:
        """As `add` one after the other, of slots in any order; for each what was new then."""
        if not slots.size:
            return masks
        held = self.masks()
        order = np.argsort(slots, kind="stable")
        place, mask = slots[order], masks[order]
        first = np.flatnonzero(np.diff(place, prepend=-1))
        longest = int(np.diff(first, append=place.size).max())
        earlier = np.zeros_like(mask)
        if longest > 1:
            since = np.arange(place.size) - np.repeat(first, np.diff(first, append=place.size))
            united, step = mask.copy(), 1
            while step < longest:
                before = np.where(since[step:] >= step, united[:-step], np.uint64(0))
                united[step:] |= before
                step *= 2
            earlier[1:] = np.where(since[1:] >= 1, united[:-1], np.uint64(0))
        new = np.empty_like(masks)
        new[order] = mask & ~(earlier | held[place])
        held[place[first]] |= np.bitwise_or.reduceat(mask, first)
        return new

    def clear(self) -> None:
        self._masks[:] = 0


class L2Cache:
    """Least recently used sectors leave first; what leaves after being written costs a write."""

    def __init__(self, space: AddressSpace, capacity_bytes: int) -> None:
        self.space = space
        self._capacity = capacity_bytes // SECTOR_BYTES
        self._held = SectorSet(space)
        self._written = SectorSet(space)
        self._stamps = np.zeros(0, dtype=np.int64)
        self._now = 0
        self._used = 0
        self.queue: deque[tuple[Slots, NDArray[np.int64]]] = deque()
        self._queued = 0

    @property
    def capacity_bytes(self) -> int:
        return self._capacity * SECTOR_BYTES

    def touch(self, slots: Slots, masks: Masks, *, write: bool) -> Masks:
        """Sectors that cost DRAM traffic: loads of what is not held, first writes of what is clean.

        A write is charged when it happens and not when the sector leaves: every written sector
        leaves once.
        """
        new = self._held.add(slots, masks)
        moved = self._written.add(slots, masks) if write else new
        self._used += count_sectors(new)
        self._remember(slots)
        if self._used > self._capacity:
            self._evict()
        return moved

    def touch_in_turn(
        self, slots: Slots, masks: Masks, turn: NDArray[np.int64], write: NDArray[np.bool_]
    ) -> Masks:
        """As `touch` turn after turn; `turn` ascends, and slots ascend within one."""
        moved = np.empty_like(masks)
        low, size = 0, slots.size
        while low < slots.size:
            high = min(slots.size, low + size)
            if high < slots.size:
                high = max(int(np.searchsorted(turn, turn[high])), low)
            alone = high <= low
            if alone:
                high = int(np.searchsorted(turn, turn[low], side="right"))
            alone = alone or turn[low] == turn[high - 1]
            now = slice(low, high)
            if alone:
                moved[now] = self.touch(slots[now], masks[now], write=bool(write[low]))
            elif not self._fits(slots[now], masks[now]):
                size = max(1, (high - low) // 2)
                continue
            else:
                moved[now] = self._touch_together(slots[now], masks[now], turn[now], write[now])
            low, size = high, max(2 * size, 64)
        return moved

    def _fits(self, slots: Slots, masks: Masks) -> bool:
        """Whether all of these can be added before any eviction, so that the same sectors are evicted."""
        wanted = np.unique(slots)
        held = self._held.masks()
        # An upper bound of the new sectors; an exact count would need another pass.
        room = self._capacity - self._used
        new = count_sectors(masks & ~held[slots])
        if new <= room:
            return True
        free, missing = 0, new - room
        for waiting, stamps in self.queue:
            oldest = waiting[self._stamps[waiting] == stamps]
            if np.isin(oldest, wanted, assume_unique=True).any():
                return False
            free += count_sectors(held[oldest])
            if free >= missing:
                return True
        return False

    def _touch_together(
        self, slots: Slots, masks: Masks, turn: NDArray[np.int64], write: NDArray[np.bool_]
    ) -> Masks:
        new = self._held.add_in_turn(slots, masks)
        moved = new.copy()
        moved[write] = self._written.add_in_turn(slots[write], masks[write])
        self._used += count_sectors(new)
        self._grow_stamps()
        number = np.cumsum(np.diff(turn, prepend=turn[0] - 1) != 0)
        stamps = self._now + number
        self._now = int(stamps[-1])
        self._stamps[slots] = stamps
        self.queue.append((slots, stamps))
        self._queued += slots.size
        if self._queued > 4 * self.space.size + 4096:
            self._shorten_queue()
        if self._used > self._capacity:
            self._evict()
        return moved

    def held(self, slots: Slots, *, written: bool) -> Masks:
        """The sectors held at `slots`; with `written` only those that wait to be written back."""
        masks: Masks = (self._written if written else self._held).masks()[slots]
        return masks

    def clear(self) -> None:
        """Cold again, as before a first forward."""
        self._held.clear()
        self._written.clear()
        self.queue.clear()
        self._used = self._queued = 0

    def _grow_stamps(self) -> None:
        if self._stamps.size < self.space.size:
            self._stamps = np.concatenate(
                (self._stamps, np.zeros(2 * self.space.size - self._stamps.size, dtype=np.int64))
            )

    def _remember(self, slots: Slots) -> None:
        self._grow_stamps()
        self._now += 1
        self._stamps[slots] = self._now
        self.queue.append((slots, np.full(slots.size, self._now)))
        self._queued += slots.size
        if self._queued > 4 * self.space.size + 4096:
            self._shorten_queue()

    def _shorten_queue(self) -> None:
        slots = np.flatnonzero(self._held.masks()[: self.space.size])
        slots = slots[np.argsort(self._stamps[slots], kind="stable")]
        self.queue.clear()
        self.queue.append((slots, self._stamps[slots]))
        self._queued = slots.size

    def _evict(self) -> None:
        held, written = self._held.masks(), self._written.masks()
        while self._used > self._capacity:
            slots, stamps = self.queue.popleft()
            self._queued -= slots.size
            # A piece touched again since then stands further back in the queue as well.
            oldest = slots[self._stamps[slots] == stamps]
            sectors = np.cumsum(np.bitwise_count(held[oldest]), dtype=np.int64)
            leaving = 1 + int(np.searchsorted(sectors, self._used - self._capacity))
            if leaving < oldest.size:
                staying = oldest[leaving:]
                self.queue.appendleft((staying, self._stamps[staying]))
                self._queued += staying.size
                oldest = oldest[:leaving]
            self._used -= int(sectors[oldest.size - 1]) if oldest.size else 0
            held[oldest] = written[oldest] = 0


@dataclass(frozen=True)
class Stretch:
    """A range of memory that an operation reads or writes from one end to the other."""

    address: int
    span_bytes: int
    moved_bytes: int
    """Bytes in the sectors really touched, at most the span's."""
    write: bool


def stream(cache: L2Cache, stretches: Sequence[Stretch]) -> list[int]:
    """Move all stretches through the cache side by side; the DRAM bytes of each.

    They are interleaved because the stretch that is streamed last would otherwise always end up in the cache. If
    they are many times larger than the cache, only their first and last parts are simulated: the parts in between
    all cause the same DRAM traffic, so that one of them stands for the others.
    """
    pieces = [_pieces(s) for s in stretches]
    step = max(1, cache.capacity_bytes // PIECE_BYTES // _STEPS_PER_CACHE)
    turns = -(-max((p.size for p in pieces), default=0) // step)
    moved = [0] * len(stretches)
    settled = _SETTLED_AFTER * _STEPS_PER_CACHE
    for turn in range(turns):
        if settled < turn < turns - settled:
            continue
        for at, stretch in enumerate(stretches):
            size = pieces[at].size
            now = pieces[at][size * turn // turns : size * (turn + 1) // turns]
            if now.size:
                masks = _masks(stretch, now, size)
                new = cache.touch(cache.space.slots_of(now), masks, write=stretch.write)
                alike = 1.0
                if turn == settled and turns > 2 * settled:
                    # This part stands for those that follow and are left out.
                    alike += (
                        size * (turns - settled) // turns - size * (turn + 1) // turns
                    ) / now.size
                moved[at] += round(SECTOR_BYTES * count_sectors(new) * alike)
    # A sector at each end may be shared with a neighbour.
    return [min(got, _in_sectors(s.moved_bytes)) for got, s in zip(moved, stretches, strict=True)]


def count_sectors(masks: Masks) -> int:
    """How many sectors the masks name."""
    return int(np.bitwise_count(masks).sum(dtype=np.int64))


def _pieces(stretch: Stretch) -> Pieces:
    last = stretch.address + max(1, stretch.span_bytes) - 1
    return np.arange(stretch.address // PIECE_BYTES, last // PIECE_BYTES + 1)


def _masks(stretch: Stretch, pieces: Pieces, of: int) -> Masks:
    """The sectors touched in some of the stretch's `of` pieces: all, or evenly many of each."""
    if stretch.moved_bytes < stretch.span_bytes:
        sectors = -(-stretch.moved_bytes // (of * SECTOR_BYTES))
        return np.full(pieces.size, min(_FULL, (1 << max(1, sectors)) - 1), dtype=np.uint64)
    masks = np.full(pieces.size, _FULL, dtype=np.uint64)
    first = stretch.address // SECTOR_BYTES
    last = (stretch.address + max(1, stretch.span_bytes) - 1) // SECTOR_BYTES
    if pieces[0] == first // SECTORS_PER_PIECE:
        masks[0] &= np.uint64(_FULL << first % SECTORS_PER_PIECE & _FULL)
    if pieces[-1] == last // SECTORS_PER_PIECE:
        masks[-1] &= np.uint64(_FULL >> SECTORS_PER_PIECE - 1 - last % SECTORS_PER_PIECE)
    return masks


def _in_sectors(size: int) -> int:
    return -(-size // SECTOR_BYTES) * SECTOR_BYTES
