"""What programs of a launch have stored and not released yet, so that who acquires need not see it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.compiled.barriers import Barriers
from kernelagent.tools.virtual.executor.launch import AccessKind
from kernelagent.tools.virtual.races.pieces import Region

Pieces = NDArray[np.int64]


@dataclass(frozen=True)
class Touched:
    """Accesses of programs that did not conflict, as ranges of `length` bytes."""

    kind: AccessKind
    program: NDArray[np.int64]
    """1 + the program's place in the run, ascending."""
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    item_bytes: int
    releases: bool = True
    """Of atomics: whether what the program stored before is seen by who acquires there."""
    line: int | None = None
    """Of the candidate's source."""
    in_bulk: bool = False
    """Of stores: whether they are copies through a tensor descriptor."""


@dataclass(frozen=True)
class _Late:
    region: Region
    pieces: Pieces
    line: int | None
    in_bulk: bool


class Unreleased:
    """Of one launch, by program."""

    def __init__(self, barriers: Barriers) -> None:
        """`barriers`: those of the kernel's code, which tells whether a store's copy has ended."""
        self.copies_under_way = False
        """Whether a program released something while copies of its own had not ended."""
        self._barriers = barriers
        self._late: dict[int, list[_Late]] = {}

    def launch_begins(self) -> None:
        """Nothing is stored yet."""
        self.copies_under_way, self._late = False, {}

    def keep(
        self,
        program: int,
        region: Region,
        pieces: Pieces,
        line: int | None = None,
        *,
        in_bulk: bool = False,
    ) -> None:
        """Something was stored or updated; `in_bulk`: as a copy through a descriptor, begun on this line."""
        self._late.setdefault(program, []).append(_Late(region, pieces, line, in_bulk))

    def forget(self, program: int) -> None:
        """It does not matter any more."""
        self._late.pop(program, None)

    def release(self, program: int, line: int | None) -> None:
        """By an atomic on this line: all that was stored, but for copies that may not have ended there."""
        late = [item for item in self._late.pop(program, ()) if self._copied_at(item, line)]
        if late:
            self._late[program] = late
            self.copies_under_way = True

    def among(self, program: int, region: Region, pieces: Pieces) -> NDArray[np.bool_]:
        """Which of these pieces the program has not released."""
        result = np.zeros(pieces.shape, dtype=bool)
        for late in self._late.get(program, ()):
            if late.region is region:
                result |= np.isin(pieces, late.pieces)
        return result

    def learn(self, touched: list[Touched], regions: list[Region], programs: int, few: int) -> None:
        """All that so many programs did, each in the order of its text.

        `few`: atomics of at most so many lanes release; others carry data.
        """
        last = np.full(programs + 1, -1)
        lines = set[int | None]()
        for at, item in enumerate(touched):
            if item.kind == "atomic" and item.releases:
                lanes = np.bincount(item.program, item.length, programs + 1) // item.item_bytes
                last[(lanes > 0) & (lanes <= few)] = at
                lines.add(item.line)
        for at, item in enumerate(touched) if (last >= 0).any() else ():
            if item.kind == "load":
                continue
            released = last[item.program]
            late = (released >= 0) & (released < at)
            if any(self._copied_at(item, line) for line in lines):
                late |= released >= 0
                self.copies_under_way = True
            where = np.flatnonzero(late)
            edges = np.flatnonzero(np.diff(item.program[where])) + 1
            for own in np.split(where, edges) if where.size else ():
                self._keep_runs(int(item.program[own[0]]), item, own, regions)

    def _keep_runs(
        self, program: int, item: Touched, where: NDArray[np.int64], regions: list[Region]
    ) -> None:
        for region in regions:
            start, length = item.start[where], item.length[where]
            inside = (start >= region.low) & (start < region.high)
            first = (start[inside] - region.low) // region.grain
            last = (start[inside] + length[inside] - 1 - region.low) // region.grain
            runs = zip(first.tolist(), last.tolist(), strict=True)
            pieces = [np.arange(low, high + 1) for low, high in runs]
            if pieces:
                whole = np.concatenate(pieces)
                self.keep(program, region, whole, item.line, in_bulk=item.in_bulk)

    def _copied_at(self, item: _Late | Touched, line: int | None) -> bool:
        return item.in_bulk and self._barriers.under_way(item.line, ("atomic", line))
