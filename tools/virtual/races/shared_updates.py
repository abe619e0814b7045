"""What each program of a launch has updated by atomics, so that of places which several updated it is known who did."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.races.pieces import Region
from kernelagent.tools.virtual.races.unreleased import Touched

Places = NDArray[np.int64]
_MOST_RUNS = 1 << 22
"""Of more nothing is kept: a launch so large is tried in other orders alone."""


@dataclass
class SharedUpdates:
    """Of one launch: runs of bytes with the number of their program."""

    _program: list[Places] = field(default_factory=list)
    _start: list[Places] = field(default_factory=list)
    _end: list[Places] = field(default_factory=list)
    _runs: int = 0

    def updated(self, program: int, region: Region, pieces: Places) -> None:
        """One program has updated these pieces."""
        places = np.unique(pieces)
        fresh = np.concatenate(([True], np.diff(places) != 1))
        first = np.flatnonzero(fresh)
        last = np.append(first[1:], places.size) - 1
        start = region.low + places[first] * region.grain
        end = region.low + (places[last] + 1) * region.grain
        self._add(np.full(start.size, program, np.int64), start, end)

    def learn(self, touched: Touched) -> None:
        """Several have."""
        start = touched.start.astype(np.int64)
        self._add(touched.program.astype(np.int64), start, start + touched.length)

    def others(self, region: Region, pieces: Places, known: Set[int]) -> list[int]:
        """Programs that updated any of these pieces, but for the `known` ones."""
        if not self._program or self._runs > _MOST_RUNS or not pieces.size:
            return []
        self._join()
        program, start, end = self._program[0], self._start[0], self._end[0]
        places = region.low + np.unique(pieces) * region.grain
        # The first of the places that lies beyond where a run begins lies in the run, if any does.
        after = np.searchsorted(places, start - (region.grain - 1))
        meets = (after < places.size) & (places[np.minimum(after, places.size - 1)] < end)
        return [number for number in np.unique(program[meets]).tolist() if number not in known]

    def _add(self, program: Places, start: Places, end: Places) -> None:
        self._runs += program.size
        if self._runs <= _MOST_RUNS:
            self._program.append(program)
            self._start.append(start)
            self._end.append(end)

    def _join(self) -> None:
        if len(self._program) > 1:
            for kept in (self._program, self._start, self._end):
                kept[:] = [np.concatenate(kept)]
