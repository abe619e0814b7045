"""Counts what a launch moves and computes while the interpreter runs it.

An access is counted in whole sectors, as the hardware moves them; what it costs in DRAM depends on
what the L2 cache still holds from earlier accesses, launches and torch operations.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.cost.ceilings import SECTOR_BYTES, ceilings_for
from kernelagent.tools.virtual.cost.function_costs import FP64_OF_SPECIAL
from kernelagent.tools.virtual.cost.residency import (
    AddressSpace,
    L2Cache,
    Masks,
    Pieces,
    SectorSet,
    Stretch,
    count_sectors,
    stream,
)
from kernelagent.tools.virtual.executor.launch import (
    AccessKind,
    Launch,
    OperationKind,
    TensorArgument,
)

WARP = 32
"""Up to this many lanes that update one address count as one atomic, as the lanes of a warp may be combined."""
_SECTOR_SHIFT = np.uint64(5)
_PIECE_SHIFT = np.uint64(6)
_SECTOR_IN_PIECE = np.uint64(63)
_ONE = np.uint64(1)


@dataclass(frozen=True)
class TrafficFacts:
    """What one launch moves and computes, scaled to its whole grid where only a part of it ran."""

    programs: int
    programs_run: int
    """How many of them were interpreted."""
    requested_load_bytes: int
    """Bytes that unmasked lanes ask for."""
    requested_store_bytes: int
    """Atomics included."""
    lanes: int
    masked_lanes: int
    """Lanes of accesses that were switched off: they move nothing and still occupy the machine."""
    load_sector_bytes: int
    """Bytes in the sectors each access touches, summed: what an uncoalesced access costs L2."""
    store_sector_bytes: int
    l1_bytes: int
    """Part of `load_sector_bytes` that L1 serves: small tensors which are read again and again."""
    distinct_load_bytes: int
    """Bytes in the sectors read at all: what one pass would load."""
    distinct_store_bytes: int
    dram_load_bytes: int
    dram_store_bytes: int
    atomics: int
    """Atomic operations, up to 32 lanes of one access to one address counting once, as one warp has no more."""
    hottest_atomics: int
    """Those that go to the busiest address."""
    fp_operations: int
    """Floating point, fp64 excluded; a fused multiply-add counts twice."""
    fp64_operations: int
    int_operations: int
    """Mostly addresses, of which the compiler removes many: only what is beyond them is charged."""
    special_operations: int
    """exp, log, sqrt and the like; a division counts as one floating point operation."""
    dot_flops: dict[str, int] = field(default_factory=dict)
    """Floating point operations of `tl.dot` by operand type: `bf16`, `fp16`, `tf32`, `tf32x3`, ..."""
    argument_reads: dict[str, float] = field(default_factory=dict)
    """How often each argument's bytes are read on average, by name, of those that are read at all."""
    loads: int = 0
    """Load operations of all programs, however many lanes each has."""
    rounds: int = 0
    """Rounds of loops, of all programs."""
    exchanges: int = 0
    """Barriers, reductions, scans, gathers and histograms: threads wait for what others computed."""

    copies: int = 0
    """Those of the loads that go through a tensor descriptor."""
    copied_bytes: int = 0
    """Bytes that these ask for."""
    chain_clocks: int = 0
    """Clocks of what each program has to do one after another, see `dataflow`, of all programs."""
    longest_chain_clocks: int = 0
    """The same, of the program that has most of it among those that ran."""
    most_bytes: int = 0
    """Bytes in the sectors that one program touches, of tensors that no L1 holds: of the one that touches most of them."""
    most_loads: int = 0
    """Loads of the program that has most of them among those that ran; the next three likewise."""
    most_copies: int = 0
    most_rounds: int = 0
    most_exchanges: int = 0
    most_work: int = 0
    """Lanes times clocks of floating point operations, at least, of the program that has most of them; see `dataflow`."""
    special_slots: int = 0
    """What special operations and divisions of floats take of the special units beyond one turn each; fp64 excluded."""
    issued_fp: int = 0
    """`fp_operations` as the compiled code has them, those that several lanes repeat included; the next two likewise."""
    issued_int: int = 0
    issued_special: int = 0
    shared_clocks: int = 0
    """Of a multiprocessor's shared memory and shuffles, at least, for changes of layout, gathers and the like."""
    most_shared_clocks: int = 0
    """The same, of the program that has most of it among those that ran."""
    loading_rounds: int = 0
    """Rounds of loops that load something."""
    most_loading_rounds: int = 0
    loops_by_values: int = 0
    """How often programs came to a loop whose rounds are as many as loaded values say."""
    split_slots: int = 0
    """Lanes' instructions that split fp32 factors for tensor cores and mend the sums, see `splitting`."""

    @property
    def flops(self) -> int:
        """Every floating point operation: of products, elementwise and of reductions, special ones as one."""
        plain = self.fp_operations + self.fp64_operations + self.special_operations
        return sum(self.dot_flops.values()) + plain

    @property
    def dram_bytes(self) -> int:
        """Bytes between L2 and DRAM, both ways."""
        return self.dram_load_bytes + self.dram_store_bytes


class TrafficCounter:
    """An observer; one per forward, or one for several that find the cache warm.

    `sampled_share` is the share of its programs the next launch runs, and may be set between
    launches. Below 1 the launch gets a cache of its own, which starts with what earlier launches
    left, and afterwards the shared cache sees the whole tensors: a sample of one launch says
    nothing about which sectors a sample of the next one finds.
    """

    def __init__(
        self, target: str, sampled_share: float = 1.0, cache: L2Cache | None = None
    ) -> None:
        self.ceilings = ceilings_for(target)
        self.sampled_share = sampled_share
        self.cache = cache or L2Cache(AddressSpace(), self.ceilings.l2_bytes)
        """Shared with `eager.EagerTraffic` when both watch one forward."""
        self._results: dict[int, TrafficFacts] = {}
        self._count: _LaunchCount | None = None

    def launch_begins(self, launch: Launch) -> None:
        cached = self.ceilings.cached_tensor_bytes
        sampled = self.sampled_share < 1
        self._count = _LaunchCount(launch, self.cache, cached, sampled=sampled)

    def program_begins(self, program: tuple[int, int, int]) -> None:
        self._running.program_begins()

    def access(
        self, kind: AccessKind, addresses: NDArray[np.uint64], item_bytes: int, lanes: int
    ) -> None:
        self._running.access(kind, addresses, item_bytes, lanes)

    def operation(self, kind: OperationKind, count: int, dtype: str) -> None:
        running = self._running
        if kind == "longest":
            running.longest[dtype] = max(running.longest[dtype], count)
        else:
            running.operations[kind, dtype] += count

    @property
    def running(self) -> _LaunchCount:
        """The launch under way, for who counts many programs at once."""
        return self._running

    def launch_ends(self, launch: Launch) -> None:
        count = self._running
        self._results[launch.index] = count.facts(
            self.ceilings.sms, self.ceilings.cached_tensor_bytes
        )
        count.settle()
        self._count = None

    def result(self, launch: Launch) -> TrafficFacts:
        """Facts of a launch that has ended; raises KeyError for any other."""
        return self._results[launch.index]

    def clear(self) -> None:
        """Forget results and what the cache holds: the next forward starts cold."""
        self._results.clear()
        self.cache.clear()

    @property
    def _running(self) -> _LaunchCount:
        if self._count is None:
            raise RuntimeError("an access or operation was reported outside a launch")
        return self._count


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
    atomics: list[NDArray[np.uint64]]
    """Addresses, once for each 32 lanes of an access that update them."""
    program: NDArray[np.int64]
    """Its place among those that ran together; ascending."""
    turn: NDArray[np.int64]
    """Rows of one access share it; ascending."""
    piece: NDArray[np.int64]
    mask: NDArray[np.uint64]
    write: NDArray[np.bool_]
    address: NDArray[np.int64]
    """The access's first lane."""


class _LaunchCount:
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
        self._requested = {False: 0, True: 0}
        self._sectors = {False: 0, True: 0}
        self._lanes = self._masked = 0
        self._atomics: list[NDArray[np.uint64]] = []
        self._tensors = _by_address(launch)
        self._starts = [count.tensor.address for count in self._tensors]
        self._large = np.array([t.tensor.storage_bytes > cached for t in self._tensors])

    def program_begins(self) -> None:
        self.programs += 1
        self._own_sectors = 0

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
            self._atomics.append(np.repeat(places, -(-lanes_there // WARP)))
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
        if not write:
            tensor.loaded += sectors.size
        moved_first = moved & new
        tensor.distinct[write] += count_sectors(new)
        tensor.again[write] += count_sectors(moved ^ moved_first)
        if self._sampled:
            moved_first &= ~self._shared.held(slots, written=write)
        tensor.first[write] += count_sectors(moved_first)

    def accesses(self, touches: Touches) -> None:
        """What many accesses of many programs did, turn after turn as `access` would have had them."""
        self._lanes += touches.lanes
        self._masked += touches.masked_lanes
        self._atomics += touches.atomics
        for write, size in touches.requested.items():
            self._requested[write] += size
        if not touches.piece.size:
            return
        self._note_most(touches)
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
            near = np.searchsorted(self._starts, touches.address[mine], side="right") - 1
            tensors = np.maximum(near, 0)
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
        readers = min(sms, self.launch.programs)
        small = (t for t in self._tensors if t.extent_bytes <= cached_tensor_bytes)
        saved = sum(
            max(0.0, t.loaded * SECTOR_BYTES * scale - t.extent_bytes * readers) for t in small
        )
        atomics, hottest = self._contention()
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
            atomics=round(atomics * scale),
            hottest_atomics=round(hottest * scale),
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
            split_slots=round(kinds["split"] * scale),
        )

    def _argument_reads(self) -> dict[str, float]:
        reads = {}
        for tensor in self._tensors:
            met = tensor.distinct[False]
            if met and tensor.tensor.name:
                whole = min(met * self._scale, max(met, tensor.extent_bytes / SECTOR_BYTES))
                reads[tensor.tensor.name] = round(tensor.loaded * self._scale / whole, 2)
        return reads

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

    def _contention(self) -> tuple[int, int]:
        if not self._atomics:
            return 0, 0
        _, times = np.unique(np.concatenate(self._atomics), return_counts=True)
        return int(times.sum()), int(times.max())


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
