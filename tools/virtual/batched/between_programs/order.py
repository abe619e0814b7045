"""Race detection across chunks: what earlier programs accessed, reported to the race checker when needed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.batched.accesses import Access, NotBatchable, Runs
from kernelagent.tools.virtual.batched.between_programs.conflicts import Territory
from kernelagent.tools.virtual.executor.launch import AccessKind, Launch, OperationKind
from kernelagent.tools.virtual.races.races import RaceChecker
from kernelagent.tools.virtual.races.unreleased import Touched

Program = tuple[int, int, int]
_HELD_BYTES = 1 << 26


@dataclass
class OrderWatch:
    """For one launch. Conflict-free chunks are reported to the checker only when it has to run."""

    checker: RaceChecker
    _stored: Territory = field(default_factory=Territory)
    _read: Territory = field(default_factory=Territory)
    _updated: Territory = field(default_factory=Territory)
    """By atomics."""
    _programs: list[Program] = field(default_factory=list)
    _waiting: list[Touched] = field(default_factory=list)
    _size: int = 0
    _before: int = 0

    def require_new_ground(self, accesses: list[Access]) -> None:
        """Raises `NotBatchable` where a program may meet one of an earlier chunk."""
        for item in accesses:
            runs = item.runs
            if self._stored.meets(runs.start, runs.end):
                raise NotBatchable("programs meet what an earlier program stored")
            if item.kind != "load" and self._read.meets(runs.start, runs.end):
                raise NotBatchable("programs store what an earlier program read")
            if item.kind != "atomic" and self._updated.meets(runs.start, runs.end):
                raise NotBatchable("programs meet what an earlier program updated")

    def keep(self, programs: list[Program], accesses: list[Access]) -> None:
        """A chunk has been run."""
        before = self._before + len(self._programs)
        for item in accesses:
            if not item.runs.start.size:
                continue
            self._note(item.kind, item.runs)
            own = before + 1 + item.runs.program
            touched = Touched(
                item.kind,
                own,
                item.runs.start,
                item.runs.length,
                item.item_bytes,
                item.releases,
                item.line,
                item.in_bulk,
            )
            self._waiting.append(touched)
            self._size += 3 * own.nbytes
        self._programs += programs
        if self._size > _HELD_BYTES:
            self.tell()

    def tell(self) -> None:
        """Let the checker know all that happened, so that it can watch the next programs itself."""
        self.checker.learn(self._programs, self._waiting)
        self._before += len(self._programs)
        self._programs, self._waiting, self._size = [], [], 0

    def heard(self, recorder: Recorder) -> None:
        """The checker itself has watched these programs."""
        self._before += recorder.programs
        for kind, start, end in recorder.taken():
            self._note(kind, Runs(start, start, end - start))

    def _note(self, kind: AccessKind, runs: Runs) -> None:
        held = {"load": self._read, "store": self._stored, "atomic": self._updated}[kind]
        held.add(runs.start, runs.end)


class Recorder:
    """An observer beside the checker, while programs run one by one."""

    ignores_operations = True

    def __init__(self) -> None:
        self.programs = 0
        self._taken: list[tuple[AccessKind, NDArray[np.int64], NDArray[np.int64]]] = []

    def launch_begins(self, launch: Launch) -> None:
        """It is put beside a launch that goes on."""

    def program_begins(self, program: Program) -> None:
        self.programs += 1

    def access(
        self, kind: AccessKind, addresses: NDArray[np.uint64], item_bytes: int, lanes: int
    ) -> None:
        where = addresses.astype(np.int64)
        fresh = np.concatenate(([True], where[1:] - where[:-1] != item_bytes))
        first = np.flatnonzero(fresh)
        length = np.diff(first, append=where.size) * item_bytes
        self._taken.append((kind, where[first], where[first] + length))

    def operation(self, kind: OperationKind, count: int, dtype: str) -> None:
        """Arithmetic touches nothing."""

    def launch_ends(self, launch: Launch) -> None:
        """It is put beside a launch that goes on."""

    def taken(self) -> list[tuple[AccessKind, NDArray[np.int64], NDArray[np.int64]]]:
        """By kind, what was touched; merged, so that many small pieces cost little."""
        merged: list[tuple[AccessKind, NDArray[np.int64], NDArray[np.int64]]] = []
        for kind in ("load", "store", "atomic"):
            parts = [(start, end) for k, start, end in self._taken if k == kind]
            if parts:
                territory = Territory()
                territory.add(
                    np.concatenate([start for start, _ in parts]),
                    np.concatenate([end for _, end in parts]),
                )
                merged.append((kind, territory.start, territory.end))
        return merged
