"""What a program of a launch knows of others' stores and updates, by who has released to whom and when.

Programs are watched one after another, so that a count of accesses says what came before a release: whoever acquires it
has seen what its program wrote until then, and what that one had seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.races.pieces import Region
from kernelagent.tools.virtual.races.unreleased import Touched

Places = NDArray[np.int64]
MOST_PROGRAMS = 1024
"""Of larger grids nothing is kept: who knows whom grows with the square of the programs."""
_MOST_RUNS = 1 << 20
_NEVER = -1


@dataclass
class _Flag:
    """One address: when each program released there, and what those that did knew."""

    released: dict[int, int] = field(default_factory=dict)
    through: Places | None = None


@dataclass
class KnownWrites:
    """Of one launch. Programs are numbered from 1."""

    programs: int
    """Of the grid."""
    _now: int = 0
    _flags: dict[int, _Flag] = field(default_factory=dict)
    _knows: Places | None = None
    """Of the program under way, where it has acquired anything: until when it has seen each program's writes."""
    _written: list[Places] = field(default_factory=list)
    """Rows of program, time, first and last byte and whether it was a store, in parts."""
    _runs: int = 0

    def program_begins(self) -> None:
        """It knows nothing."""
        self._knows = None

    def tick(self) -> None:
        """Another access begins."""
        self._now += 1

    def wrote(self, program: int, region: Region, pieces: Places, *, stored: bool) -> None:
        """The running program has stored or updated these."""
        if not self._keeps or not pieces.size:
            return
        places = np.unique(pieces)
        first = np.flatnonzero(np.diff(places, prepend=places[0] - 2) != 1)
        last = np.append(first[1:], places.size) - 1
        low = region.low + places[first] * region.grain
        high = region.low + (places[last] + 1) * region.grain - 1
        self._add(np.full(low.size, program), low, high, stored=stored)

    def learn(self, touched: Touched, few: int) -> None:
        """Several programs have, at one place of the text; what at most `few` lanes of one release is told too."""
        self.tick()
        if not self._keeps or touched.kind == "load" or not touched.start.size:
            return
        program, start = touched.program.astype(np.int64), touched.start.astype(np.int64)
        self._add(program, start, start + touched.length - 1, stored=touched.kind == "store")
        if touched.kind != "atomic" or not touched.releases:
            return
        lanes = np.bincount(program, touched.length) // touched.item_bytes
        for own, low, length in zip(program, start, touched.length, strict=True):
            if lanes[own] <= few:
                for address in range(int(low), int(low + length), touched.item_bytes):
                    self._flag(address).released[int(own)] = self._now

    def meet(self, program: int, addresses: list[int], *, acquires: bool, releases: bool) -> None:
        """The running program's atomic at some flags."""
        if not self._keeps:
            return
        for address in addresses if acquires else ():
            flag = self._flag(address)
            knows = self._knowledge()
            for other, when in flag.released.items():
                knows[other] = max(knows[other], when)
            if flag.through is not None:
                np.maximum(knows, flag.through, out=knows)
        for address in addresses if releases else ():
            flag = self._flag(address)
            flag.released[program] = self._now
            if self._knows is not None:
                before = self._knows if flag.through is None else flag.through
                flag.through = np.maximum(before, self._knows)

    def unknown(self, program: int, region: Region, pieces: Places) -> int | None:
        """A program whose write to one of these pieces the running one has not seen; None: there is none.

        Of several that stored in one place only the last counts: others stored the same.
        """
        if not self._keeps or not self._written or not pieces.size:
            return None
        if len(self._written) > 1:
            self._written = [np.concatenate(self._written, axis=1)]
        writer, when, low, high, stored = self._written[0]
        places = region.low + np.unique(pieces) * region.grain
        # The first of the places that ends in or behind where a run begins lies in the run, if any does.
        after = np.searchsorted(places, low - (region.grain - 1))
        meets = (after < places.size) & (places[np.minimum(after, places.size - 1)] <= high)
        counts = (stored == 0) | np.isin(writer, region.writer[pieces])
        late = meets & counts & (writer != program) & (when > self._knowledge()[writer])
        return int(writer[late][0]) if late.any() else None

    @property
    def _keeps(self) -> bool:
        return self.programs <= MOST_PROGRAMS and self._runs <= _MOST_RUNS

    def _flag(self, address: int) -> _Flag:
        return self._flags.setdefault(address, _Flag())

    def _knowledge(self) -> Places:
        if self._knows is None:
            self._knows = np.full(self.programs + 1, _NEVER, np.int64)
        return self._knows

    def _add(self, program: Places, low: Places, high: Places, *, stored: bool) -> None:
        self._runs += program.size
        when, kind = np.full(program.size, self._now), np.full(program.size, int(stored))
        self._written.append(np.stack([program, when, low, high, kind]).astype(np.int64))
