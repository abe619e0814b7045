"""The running sums of one launch: what it moves of each tensor, in sectors, and what it computes."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.cost.ceilings import SECTOR_BYTES
from kernelagent.tools.virtual.cost.contention import Updates, contention_of
from kernelagent.tools.virtual.cost.function_costs import FP64_OF_SPECIAL
from kernelagent.tools.virtual.cost.loads_by_line import (
    SectorsOfOne,
    asked_of,
    followed_after,
    is_followed,
    shares_of,
)
from kernelagent.tools.virtual.cost.own_reuse import OwnReuse
from kernelagent.tools.virtual.cost.residency import (
    L2Cache,
    Masks,
    Pieces,
    SectorSet,
    Stretch,
    count_sectors,
    stream,
)
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts
from kernelagent.tools.virtual.executor.launch import AccessKind, Launch, TensorArgument

_SECTOR_SHIFT = np.uint64(5)
_PIECE_SHIFT = np.uint64(6)
_SECTOR_IN_PIECE = np.uint64(63)
_ONE = np.uint64(1)
_TELLING = 0.05
"""Of what a kernel reads again, an argument of less is not named."""


@dataclass
class _TensorCount:
    """What a launch did to one tensor so far; sectors, not bytes."""

    tensor: TensorArgument
    shaped_bytes: int
    loaded: int = 0
    distinct: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    """By whether it was written."""
    first: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    """Of the distinct ones, those that crossed to or from DRAM when first touched."""
    again: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    """Sectors that crossed once more, because the cache had lost them."""

    @property
    def extent_bytes(self) -> int:
        """As its shape says; where more was touched, as a view of one element allows, to its storage's end."""
        touched = max(self.distinct.values()) * SECTOR_BYTES
        if touched <= self.shaped_bytes + 2 * SECTOR_BYTES:
            return self.shaped_bytes
        before = self.tensor.address - self.tensor.storage_address
        return max(touched, self.tensor.storage_bytes - before)


@dataclass(frozen=True)
class Touches:
    """The accesses of many programs, one row for each access and piece, in the programs' order."""

    lanes: int
    masked_lanes: int
    requested: dict[bool, int]
    """Bytes asked for, by whether they are written."""
    atomics: list[Updates]
    program: NDArray[np.int64]
    """Its place among those that ran together; ascending."""
    turn: NDArray[np.int64]
    """Rows of one access share it; ascending."""
    piece: NDArray[np.int64]
    mask: NDArray[np.uint64]
    write: NDArray[np.bool_]
    address: NDArray[np.int64]
    """The access's first lane."""


class LaunchCount:
    """The running sums of one launch."""

    def __init__(self, launch: Launch, cache: L2Cache, cached: int, *, sampled: bool) -> None:
        """`cached`: of tensors up to so many bytes, what is read again comes from L1."""
        self.launch = launch
        self.programs = 0
        self._own_sectors = self._most_sectors = 0
        """Of the program under way, and of the one that has most."""
        self.operations: Counter[tuple[str, str]] = Counter()
        self.longest: Counter[str] = Counter()
        """By kind, the most that one program had of it."""
        self._shared = cache
        self._sampled = sampled
        self._cache = L2Cache(cache.space, cache.capacity_bytes) if sampled else cache
        self._seen = {False: SectorSet(cache.space), True: SectorSet(cache.space)}
        self._of_one = SectorsOfOne()
        self._reuse = OwnReuse(cache.capacity_bytes)
        self._follows = False
        self._requested = {False: 0, True: 0}
        self._sectors = {False: 0, True: 0}
        self._lanes = self._masked = 0
        self._atomics: list[Updates] = []
        self._tensors = _by_address(launch)
        self._starts = [count.tensor.address for count in self._tensors]
        self._large = np.array([t.tensor.storage_bytes > cached for t in self._tensors])

    def program_begins(self) -> None:
        self.programs += 1
        self._own_sectors = 0
        self._follows = is_followed(self.programs)
        self._reuse.program_begins(follows=self._follows)
        if self._follows:
            self._of_one.begins()

    def access(
        self, kind: AccessKind, addresses: NDArray[np.uint64], item_bytes: int, lanes: int
    ) -> None:
        self._lanes += lanes
        self._masked += lanes - addresses.size
        if addresses.size == 0:
            return
        write = kind != "load"
        if kind == "atomic":
            places, lanes_there = np.unique(addresses, return_counts=True)
            self._atomics.append(Updates.of(places, lanes_there))
        sectors = _ascending(addresses >> _SECTOR_SHIFT)
        self._requested[write] += addresses.size * item_bytes
        self._sectors[write] += sectors.size
        pieces, masks = _pieces(sectors)
        slots = self._shared.space.slots_of(pieces)
        moved = self._cache.touch(slots, masks, write=write)
        new = self._seen[write].add(slots, masks)
        place = max(0, bisect_right(self._starts, int(addresses[0])) - 1)
        tensor = self._tensors[place]
        if self._large[place]:
            self._own_sectors += sectors.size
            self._most_sectors = max(self._most_sectors, self._own_sectors)
        self._reuse.add(pieces, masks, write, place)
        if not write:
            tensor.loaded += sectors.size
            if self._follows:
                self._of_one.add(pieces, masks)
        moved_first = moved & new
        tensor.distinct[write] += count_sectors(new)
        tensor.again[write] += count_sectors(moved ^ moved_first)
        if self._sampled:
            moved_first &= ~self._shared.held(slots, written=write)
        tensor.first[write] += count_sectors(moved_first)

    def accesses(self, touches: Touches) -> None:
        """What many accesses of many programs did, turn after turn as `access` would have had them.

        `programs` are those that ran before them.
        """
        self._lanes += touches.lanes
        self._masked += touches.masked_lanes
        self._atomics += touches.atomics
        for write, size in touches.requested.items():
            self._requested[write] += size
        if not touches.piece.size:
            return
        self._note_most(touches)
        of_tensor = np.searchsorted(self._starts, touches.address, side="right") - 1
        of_tensor = np.maximum(of_tensor, 0)
        for place in followed_after(self.programs, int(touches.program[-1])):
            begin, end = np.searchsorted(touches.program, (place, place + 1))
            loads = ~touches.write[begin:end]
            self._of_one.begins()
            its_pieces, its_masks = touches.piece[begin:end], touches.mask[begin:end]
            self._of_one.add(its_pieces[loads], its_masks[loads])
            self._reuse.program_begins(follows=True)
            self._reuse.add(its_pieces, its_masks, ~loads, of_tensor[begin:end])
        slots = self._shared.space.slots_of_any(touches.piece)
        masks, written = touches.mask, touches.write
        moved = self._cache.touch_in_turn(slots, masks, touches.turn, written)
        for write in (False, True):
            mine = written == write
            if not mine.any():
                continue
            its_masks, its_slots = masks[mine], slots[mine]
            new = self._seen[write].add_in_turn(its_slots, its_masks)
            moved_first = moved[mine] & new
            again = moved[mine] ^ moved_first
            if self._sampled:
                moved_first &= ~self._shared.held(its_slots, written=write)
            tensors = of_tensor[mine]
            self._sectors[write] += count_sectors(its_masks)
            for place in np.unique(tensors).tolist():
                tensor, its = self._tensors[place], tensors == place
                if not write:
                    tensor.loaded += count_sectors(its_masks[its])
                tensor.distinct[write] += count_sectors(new[its])
                tensor.again[write] += count_sectors(again[its])
                tensor.first[write] += count_sectors(moved_first[its])

    def _note_most(self, touches: Touches) -> None:
        near = np.searchsorted(self._starts, touches.address, side="right") - 1
        sectors = np.bitwise_count(touches.mask) * self._large[np.maximum(near, 0)]
        most = np.bincount(touches.program, sectors).max()
        self._most_sectors = max(self._most_sectors, int(most))

    def facts(self, sms: int, cached_tensor_bytes: int) -> TrafficFacts:
        """The sums, scaled from the programs that ran to the whole grid."""
        scale = self._scale
        dram_load, distinct_load = self._dram_and_distinct(False)
        dram_store, distinct_store = self._dram_and_distinct(True)
        own_again, own_share = self._reuse.by_distance(
            [tensor.distinct[False] for tensor in self._tensors],
            self.programs,
            self.launch.programs,
        )
        readers = min(sms, self.launch.programs)
        small = (t for t in self._tensors if t.extent_bytes <= cached_tensor_bytes)
        saved = sum(
            max(0.0, t.loaded * SECTOR_BYTES * scale - t.extent_bytes * readers) for t in small
        )
        asked = asked_of(self.operations, scale)
        kinds: Counter[str] = Counter()
        for (kind, dtype), number in self.operations.items():
            if (kind, dtype) in (("special", "fp64"), ("slot", "fp64")):
                kinds["fp64"] += FP64_OF_SPECIAL * number
            else:
                kinds["fp64" if (kind, dtype) == ("fp", "fp64") else kind] += number
        return TrafficFacts(
            programs=self.launch.programs,
            programs_run=self.programs,
            requested_load_bytes=round(self._requested[False] * scale),
            requested_store_bytes=round(self._requested[True] * scale),
            lanes=round(self._lanes * scale),
            masked_lanes=round(self._masked * scale),
            load_sector_bytes=round(self._sectors[False] * SECTOR_BYTES * scale),
            store_sector_bytes=round(self._sectors[True] * SECTOR_BYTES * scale),
            l1_bytes=round(saved),
            distinct_load_bytes=distinct_load,
            distinct_store_bytes=distinct_store,
            dram_load_bytes=dram_load,
            dram_store_bytes=dram_store,
            **contention_of(self._atomics).scaled(scale),
            fp_operations=round(kinds["fp"] * scale),
            fp64_operations=round(kinds["fp64"] * scale),
            int_operations=round(kinds["int"] * scale),
            special_operations=round(kinds["special"] * scale),
            dot_flops={
                _dot_type(dtype): round(number * scale)
                for (kind, dtype), number in sorted(self.operations.items())
                if kind == "dot"
            },
            argument_reads=self._argument_reads(),
            loads=round(kinds["load"] * scale),
            rounds=round(kinds["round"] * scale),
            exchanges=round(kinds["exchange"] * scale),
            copies=round(kinds["copy"] * scale),
            copied_bytes=round(kinds["copied"] * scale),
            chain_clocks=round(kinds["chain"] * scale),
            # Programs that wait for each other make one chain, of which those that ran are a part.
            longest_chain_clocks=max(self.longest["chain"], round(self.longest["queued"] * scale)),
            most_bytes=self._most_sectors * SECTOR_BYTES,
            most_loads=self.longest["load"],
            most_copies=self.longest["copy"],
            most_rounds=self.longest["round"],
            most_exchanges=self.longest["exchange"],
            most_work=max(self.longest["work"], self.longest["issued"]),
            issued_fp=round(kinds["issued_fp"] * scale),
            issued_int=round(kinds["issued_int"] * scale),
            issued_special=round(kinds["issued_special"] * scale),
            shared_clocks=round(kinds["shared"] * scale),
            most_shared_clocks=self.longest["shared"],
            loading_rounds=round(kinds["loading"] * scale),
            most_loading_rounds=self.longest["loading"],
            loops_by_values=round(kinds["by_values"] * scale),
            special_slots=round(kinds["slot"] * scale),
            combining_clocks=round(kinds["combining"] * scale),
            most_combining_clocks=self.longest["combining"],
            share_first=self._of_one.share_first,
            asked_bytes=asked,
            most_asked_bytes={line: self.longest[f"asked {line}"] for line in asked},
            share_on=shares_of(self.operations, "on"),
            share_met=shares_of(self.operations, "met"),
            split_slots=round(kinds["split"] * scale),
            own_again=own_again,
            own_share=own_share,
        )

    def _argument_reads(self) -> dict[str, float]:
        reads: dict[str, float] = {}
        again: dict[str, float] = {}
        for tensor in self._tensors:
            met = tensor.distinct[False]
            if met and tensor.tensor.name:
                whole = min(met * self._scale, max(met, tensor.extent_bytes / SECTOR_BYTES))
                loaded = tensor.loaded * self._scale
                reads[tensor.tensor.name] = round(loaded / whole, 2)
                again[tensor.tensor.name] = max(0.0, loaded - whole)
        # A bias that thousands of programs read is read often, and of a tile beside it that is nothing.
        least = _TELLING * sum(again.values())
        return {name: times for name, times in reads.items() if again[name] >= least}

    def settle(self) -> None:
        """After a sample: let the shared cache see what the whole grid would have touched."""
        if not self._sampled:
            return
        stretches = []
        for tensor in self._tensors:
            for write in (False, True):
                size = tensor.distinct[write] * SECTOR_BYTES * self._scale
                if size:
                    moved = min(tensor.extent_bytes, round(size))
                    at = tensor.tensor.address
                    stretches.append(Stretch(at, tensor.extent_bytes, moved, write))
        stream(self._shared, stretches)

    def _dram_and_distinct(self, write: bool) -> tuple[int, int]:
        capacity = self._shared.capacity_bytes
        return _dram_and_distinct(self._tensors, write, self._scale, capacity)

    @property
    def _scale(self) -> float:
        return self.launch.programs / max(1, self.programs)


def _dram_and_distinct(
    tensors: tuple[_TensorCount, ...], write: bool, scale: float, l2_bytes: int
) -> tuple[int, int]:
    """Bytes that crossed to or from DRAM, and bytes touched at all, in the whole grid.

    Multiplying a sample's bytes by the size of the grid counts data several times that several programs read, so
    distinct bytes are capped at the tensor's size. What exceeds them counts as further passes over the tensor:
    free if everything that one pass moves fits into L2, else from DRAM.
    """
    dram = distinct = 0.0
    everything = scale * sum(sum(t.distinct.values()) for t in tensors) * SECTOR_BYTES
    for tensor in tensors:
        met = tensor.distinct[write]
        if not met:
            continue
        whole = max(met, min(met * scale, tensor.extent_bytes / SECTOR_BYTES))
        sweeps = met * scale / whole
        dram += whole * tensor.first[write] / met + tensor.again[write] * scale
        if everything / sweeps > l2_bytes:
            dram += whole * (sweeps - 1)
        distinct += whole
    return round(dram * SECTOR_BYTES), round(distinct * SECTOR_BYTES)


def _by_address(launch: Launch) -> tuple[_TensorCount, ...]:
    extents: dict[int, tuple[int, TensorArgument]] = {}
    for tensor in launch.tensors:
        span = sum((n - 1) * abs(s) for n, s in zip(tensor.shape, tensor.strides, strict=True))
        extent = 0 if 0 in tensor.shape else (span + 1) * tensor.item_bytes
        known = extents.get(tensor.address, (0, tensor))
        extents[tensor.address] = max(known, (extent, tensor), key=lambda entry: entry[0])
    if not extents:
        extents[0] = (0, TensorArgument("", 0, 0, 0, 1, "uint8", (0,), (1,)))
    return tuple(_TensorCount(tensor, size) for _, (size, tensor) in sorted(extents.items()))


def _ascending(sectors: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The distinct sectors in order; neighbouring lanes mostly repeat one."""
    if sectors.size == 1:
        return sectors
    changes = sectors[1:] != sectors[:-1]
    runs = np.concatenate((sectors[:1], sectors[1:][changes]))
    if bool((runs[1:] > runs[:-1]).all()):
        return runs
    runs.sort()
    distinct = np.concatenate(([True], runs[1:] != runs[:-1]))
    return runs[distinct]


def _pieces(sectors: NDArray[np.uint64]) -> tuple[Pieces, Masks]:
    pieces = (sectors >> _PIECE_SHIFT).view(np.int64)
    bits = _ONE << (sectors & _SECTOR_IN_PIECE)
    if pieces[0] == pieces[-1]:
        return pieces[:1], np.bitwise_or.reduce(bits, keepdims=True)
    starts = np.concatenate(([0], np.flatnonzero(pieces[1:] != pieces[:-1]) + 1))
    return pieces[starts], np.bitwise_or.reduceat(bits, starts)


def _dot_type(dtype: str) -> str:
    return "fp8" if dtype.startswith("fp8") else "int8" if dtype.endswith("int8") else dtype
