"""Detects data races between programs of one launch, which a GPU may run at the same time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.compiled.barriers import Barriers
from kernelagent.tools.virtual.compiled.synchronising import line_now
from kernelagent.tools.virtual.executor.launch import (
    AccessKind,
    Launch,
    MemoryFault,
    OperationKind,
    TensorArgument,
)
from kernelagent.tools.virtual.races.known_writes import KnownWrites
from kernelagent.tools.virtual.races.pieces import MANY, NOBODY, Addresses, Region, bytes_at
from kernelagent.tools.virtual.races.unreleased import Touched, Unreleased

Program = tuple[int, int, int]
_WEAK = (
    " (an atomic orders programs where one releases after it stored and the other acquires before it "
    "loads: sem='acq_rel' does both, 'relaxed' neither)"
)
_PLAIN = (
    " (a plain load may give what was there at any time: where a value is waited for, wait for an atomic that "
    "acquires what one of theirs released, and load behind it)"
)
_PROXY = (
    " (a tensor descriptor loads through a proxy of memory of its own, before which Triton puts no fence: no atomic and no "
    "barrier lets it see what other programs of the launch wrote; load that with tl.load)"
)
_UNDER_WAY = (
    " (a store through a tensor descriptor is a copy that goes on beside the program, in a loop until the loop ends: an "
    "atomic in the loop does not release it; use tl.store, or the atomic behind the loop)"
)
FLAG_LANES = 32
"""Atomics of at most this many lanes are taken for flags, locks or tickets; wider ones carry data."""


@dataclass(frozen=True)
class _Pending:
    """Bytes that another program accessed, as they were before the current store."""

    region: Region
    addresses: Addresses
    before: NDArray[np.uint8]
    other: int
    did: str


class RaceChecker:
    """Raises `MemoryFault("data_race")` when the outcome depends on which program runs first.

    That is a program that reads or updates what another one stored in this launch, or stores a
    different value where another one stored, read or updated. Equal values from several programs are no fault, and neither
    are programs that met at an atomic flag before: one released there what it had stored, and the other acquired it.
    """

    ignores_operations = True

    def __init__(
        self,
        non_synchronizing_atomics: frozenset[int] = frozenset(),
        barriers: Barriers | None = None,
    ) -> None:
        """`non_synchronizing_atomics`: lines of those whose value decides nothing: nobody waits for them.

        `barriers`: those of the kernel's code, which tells whether a store's copy has ended.
        """
        self._non_synchronizing = non_synchronizing_atomics
        self._unreleased = Unreleased(barriers or Barriers())
        self._launch: Launch | None = None
        self._programs: list[Program] = []
        self._regions: list[Region] = []
        self._flags: dict[int, set[int]] = {}
        self._met: set[int] = set()
        self._known_writes = KnownWrites(0)
        self._acquires = self._releases = True
        self._weak = self._released = False
        self._volatile = self._swaps = self._copied = self._in_bulk = self._meets = False
        self._guesses: list[tuple[Region, NDArray[np.int64], int]] = []
        """What the running program loaded of others' updates: right only where it goes into a compare-and-swap."""
        self._pending: list[_Pending] = []
        self.updated_by_several = False
        """Whether several programs updated one place by atomics."""
        self.order_matters = False
        """Whether an atomic's value decided something, or what atomics change was loaded by others or replaced."""

    def launch_begins(self, launch: Launch) -> None:
        self._launch = launch
        by_storage: dict[int, list[TensorArgument]] = {}
        for tensor in launch.tensors:
            if tensor.storage_bytes:
                by_storage.setdefault(tensor.storage_address, []).append(tensor)
        self._regions = [
            Region(
                low,
                low + max(item.storage_bytes for item in tensors),
                min(item.item_bytes for item in tensors),
                tensors[0],
            )
            for low, tensors in by_storage.items()
        ]
        self._programs, self._flags, self._met, self._pending = [], {}, set(), []
        self._weak = self._released = False
        self._unreleased.launch_begins()
        self._known_writes = KnownWrites(launch.programs)
        self._guesses = []

    def program_begins(self, program: Program) -> None:
        self._settle()
        self._require_swapped()
        if not self._released:
            # Nobody meets it, so it does not matter when it stored.
            self._unreleased.forget(len(self._programs))
        self._programs.append(program)
        self._met, self._released = set(), False
        self._known_writes.program_begins()

    def next_load(self, *, volatile: bool, copied: bool = False) -> None:
        """Said before `access` tells of a load: one that is volatile may come at any time, and gives what is there.

        `copied`: it is a copy through a tensor descriptor.
        """
        self._volatile, self._copied = volatile, copied

    def next_atomic_load(self, *, acquires: bool) -> None:
        """Said before `access` tells of a load: it is an atomic one, which meets who released there."""
        self._volatile, self._copied, self._meets = True, False, True
        self._acquires, self._releases = acquires, False
        self._weak |= not acquires

    def next_store(self, *, in_bulk: bool) -> None:
        """Said before `access` tells of a store; `in_bulk`: it is a copy through a tensor descriptor."""
        self._in_bulk = in_bulk

    def next_atomic(
        self, *, acquires: bool, releases: bool, exchanges: bool = False, swaps: bool = False
    ) -> None:
        """Said before `access` tells of an atomic; `exchanges`: whatever others added there is gone.

        `swaps`: it compares what is there with what the program took it for.
        """
        self.order_matters |= exchanges
        self._swaps = swaps
        self._acquires, self._releases = acquires, releases
        self._weak |= not (acquires and releases)

    def access(self, kind: AccessKind, addresses: Addresses, item_bytes: int, lanes: int) -> None:
        self._settle()
        if addresses.size == 0:
            return
        self._known_writes.tick()
        region = self._region(int(addresses[0]))
        if region is None or not region.holds(addresses):
            self._by_region(kind, addresses, item_bytes)
        else:
            self._watch(kind, region, addresses, item_bytes)
        if kind == "atomic" or self._meets:
            # After the check: an atomic orders only later accesses, not itself.
            self._meet(addresses)
        self._copied = self._in_bulk = self._meets = False

    def operation(self, kind: OperationKind, count: int, dtype: str) -> None:
        """Arithmetic disturbs nobody."""

    def launch_ends(self, launch: Launch) -> None:
        self._settle()
        self._require_swapped()
        self._regions = []

    def _hint(self) -> str:
        """What may have been meant to order the programs, and does not."""
        if self._unreleased.copies_under_way:
            return _UNDER_WAY
        return _WEAK if self._weak else ""

    def learn(self, programs: list[Program], touched: list[Touched]) -> None:
        """These programs have run without being watched; they disturbed nobody."""
        self._settle()
        self._require_swapped()
        self._programs += programs
        for item in touched:
            self._learn_pieces(item)
            self._known_writes.learn(item, FLAG_LANES)
            if item.kind == "atomic" and item.releases:
                self._learn_flags(item)
        self._unreleased.learn(touched, self._regions, len(self._programs), FLAG_LANES)

    def _learn_pieces(self, touched: Touched) -> None:
        for region in self._regions:
            inside = (touched.start >= region.low) & (touched.start < region.high)
            if not inside.any():
                continue
            start, length = touched.start[inside] - region.low, touched.length[inside]
            first = start // region.grain
            count = (start + length - 1) // region.grain - first + 1
            skipped = np.repeat(first - (np.cumsum(count) - count), count)
            pieces = skipped + np.arange(skipped.size)
            own = np.repeat(touched.program[inside], count).astype(np.int32)
            if touched.kind == "store":
                region.writer[pieces] = own
                continue
            order = np.argsort(pieces, kind="stable")
            pieces, own = pieces[order], own[order]
            at = np.flatnonzero(np.diff(pieces, prepend=-1))
            pieces, low, high = (
                pieces[at],
                np.minimum.reduceat(own, at),
                np.maximum.reduceat(own, at),
            )
            marks = region.marks(touched.kind)
            before = marks[pieces]
            alone = (low == high) & ((before == NOBODY) | (before == low))
            self.updated_by_several |= touched.kind == "atomic" and not alone.all()
            marks[pieces] = np.where(alone, low, MANY)
            if touched.kind == "load":
                region.plain[pieces] = marks[pieces]

    def _learn_flags(self, touched: Touched) -> None:
        lanes = np.bincount(touched.program, touched.length) // touched.item_bytes
        few = lanes[touched.program] <= FLAG_LANES
        parts = (touched.program[few], touched.start[few], touched.length[few])
        items = zip(*(part.tolist() for part in parts), strict=True)
        for program, start, length in items:
            for address in range(start, start + length, touched.item_bytes):
                self._flags.setdefault(address, set()).add(program)

    def _watch(
        self, kind: AccessKind, region: Region, addresses: Addresses, item_bytes: int
    ) -> None:
        own = len(self._programs)
        pieces = region.pieces(addresses, item_bytes)
        writers = region.writer[pieces]
        foreign = self._foreign(writers, own, region, pieces)
        if kind != "store":
            if foreign is not None:
                does = "reads" if kind == "load" else "updates"
                self._raise(region, does, int(writers[foreign][0]), int(foreign.sum()), "stored")
            across = region.marks("atomic" if kind == "load" else "load")[pieces]
            self.order_matters |= self._foreign(across, own) is not None
            if kind == "load":
                self._loaded(region, pieces, own)
            else:
                self._updating(region, pieces, own)
            marks = region.marks(kind)
            before = marks[pieces]
            alone = (before == NOBODY) | (before == own)
            self.updated_by_several |= kind == "atomic" and not alone.all()
            marks[pieces] = np.where(alone, own, MANY)
            return
        if foreign is not None:
            self._expect_equal(region, pieces[foreign], int(writers[foreign][0]), "stored")
        for kind_before in ("load", "atomic"):
            marks = region.marks(kind_before)[pieces]
            foreign = self._foreign(marks, own)
            if foreign is not None:
                did = "read or updated"
                self._expect_equal(region, pieces[foreign], int(marks[foreign][0]), did)
        region.writer[pieces] = own
        line = line_now() if self._in_bulk else None
        self._unreleased.keep(own, region, pieces, line, in_bulk=self._in_bulk)
        self._known_writes.wrote(own, region, pieces, stored=True)

    def _require_unwritten(self, region: Region, pieces: NDArray[np.int64], own: int) -> None:
        """A copy through a descriptor sees nothing that others wrote by pointers in this launch."""
        for marks, did in ((region.writer, "stored"), (region.updater, "updated by atomics")):
            others = (marks[pieces] != NOBODY) & (marks[pieces] != own)
            if others.any():
                other = int(marks[pieces][others][0])
                self._raise(region, "reads", other, int(others.sum()), did, _PROXY)

    def _loaded(self, region: Region, pieces: NDArray[np.int64], own: int) -> None:
        """A plain load of what atomics of others change, which nothing orders, is a race, but as a guess."""
        if self._copied:
            self._require_unwritten(region, pieces, own)
        if self._volatile:
            return
        updaters = region.updater[pieces]
        foreign = self._foreign(updaters, own, region, pieces)
        if foreign is not None:
            self._guesses.append((region, pieces[foreign], int(updaters[foreign][0])))
        elif self._met:
            self._require_known(region, pieces, own)
        before = region.plain[pieces]
        region.plain[pieces] = np.where((before == NOBODY) | (before == own), own, MANY)

    def _require_known(self, region: Region, pieces: NDArray[np.int64], own: int) -> None:
        """Of what programs wrote that it has met, it may load what they had written by then; so of several at one place."""
        others = (region.updater[pieces] != NOBODY) | (region.writer[pieces] != NOBODY)
        other = self._known_writes.unknown(own, region, pieces[others])
        if other is not None:
            self._guesses.append((region, pieces[others], other))

    def _updating(self, region: Region, pieces: NDArray[np.int64], own: int) -> None:
        """What others loaded plainly may have been loaded after this as well."""
        if self._swaps:
            region.plain[pieces[region.plain[pieces] == own]] = NOBODY
            self._guesses = [
                (where, rest, other)
                for where, guessed, other in self._guesses
                if (rest := guessed[~np.isin(guessed, pieces)] if where is region else guessed).size
            ]
        readers = region.plain[pieces]
        foreign = self._foreign(readers, own)
        if foreign is not None:
            self._expect_equal(region, pieces[foreign], int(readers[foreign][0]), "read")
        self._unreleased.keep(own, region, pieces)
        self._known_writes.wrote(own, region, pieces, stored=False)

    def _require_swapped(self) -> None:
        for region, pieces, other in self._guesses[:1]:
            self._raise(region, "reads", other, pieces.size, "updated by atomics", _PLAIN)

    def _by_region(self, kind: AccessKind, addresses: Addresses, item_bytes: int) -> None:
        """One access that reaches into several storages, as a table of pointers makes it."""
        for region in self._regions:
            inside = (addresses >= region.low) & (addresses < region.high)
            if inside.any():
                self._watch(kind, region, addresses[inside], item_bytes)

    def _foreign(
        self,
        marks: NDArray[np.int32],
        own: int,
        region: Region | None = None,
        pieces: NDArray[np.int64] | None = None,
    ) -> NDArray[np.bool_] | None:
        """Which marks are of programs that this one has not met; None when there are none.

        With `region` and `pieces`, to which the marks belong: also those of programs that it has met, for what they
        stored after their last release.
        """
        if not marks.any():
            return None
        others = (marks != NOBODY) & (marks != own)
        if self._met and others.any():
            known = others & np.isin(marks, list(self._met))
            others &= ~known
            if region is not None and pieces is not None and known.any():
                for program in np.unique(marks[known]).tolist():
                    late = self._unreleased.among(program, region, pieces)
                    others |= known & (marks == program) & late
        return others if others.any() else None

    def _meet(self, addresses: Addresses) -> None:
        decides = not (self._non_synchronizing and line_now() in self._non_synchronizing)
        self.order_matters |= decides
        if addresses.size > FLAG_LANES:
            return
        own = len(self._programs)
        self._known_writes.meet(
            own,
            addresses.tolist(),
            acquires=decides and self._acquires,
            releases=self._releases,
        )
        for address in addresses.tolist():
            visitors = self._flags.setdefault(address, set())
            if decides and self._acquires:
                self._met |= visitors
            if self._releases:
                visitors.add(own)
        if self._releases:
            self._released = True
            self._unreleased.release(own, line_now())
        if self._met:
            # From now on pieces that several programs accessed (MANY) count as accessed by programs it has met.
            self._met.discard(own)
            self._met.add(MANY)

    def _expect_equal(
        self, region: Region, pieces: NDArray[np.int64], other: int, did: str
    ) -> None:
        """The store has not happened yet: look again when it has."""
        addresses = np.unique(pieces).astype(np.uint64) * np.uint64(region.grain)
        addresses = addresses + np.uint64(region.low)
        self._pending.append(
            _Pending(region, addresses, bytes_at(addresses, region.grain), other, did)
        )

    def _settle(self) -> None:
        if not self._pending:
            return
        waiting, self._pending = self._pending, []
        for item in waiting:
            changed = bytes_at(item.addresses, item.region.grain) != item.before
            if changed.any():
                count = int(changed.any(axis=1).sum())
                self._raise(item.region, "overwrites", item.other, count, item.did)

    def _region(self, address: int) -> Region | None:
        for region in self._regions:
            if region.low <= address < region.high:
                return region
        return None

    def _raise(
        self, region: Region, does: str, other: int, count: int, did: str, why: str = ""
    ) -> None:
        assert self._launch is not None
        this = self._programs[-1]
        whose = "other programs" if other == MANY else f"program {self._programs[other - 1]}"
        programs = [list(this)] if other == MANY else [list(self._programs[other - 1]), list(this)]
        raise MemoryFault(
            "data_race",
            f"`{self._launch.kernel}`: program {this} {does} {count} elements of "
            f"`{region.tensor.name}` that {whose} {did} in the same launch; programs run in no "
            f"order: use atomics, separate the places, or split the work into two launches{why or self._hint()}",
            {"launch": self._launch.kernel, "argument": region.tensor.name, "programs": programs},
        )
