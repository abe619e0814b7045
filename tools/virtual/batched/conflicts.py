"""Whether programs of a launch access the same memory, so that their order affects the result."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kernelagent.tools.virtual.batched.accesses import Access, Int64Array, NotBatchable

_EVERYBODY = -1
_SEVERAL = -2


@dataclass(frozen=True)
class Stretches:
    """Disjoint stretches of memory in order, and the program that has each."""

    start: Int64Array
    end: Int64Array
    program: Int64Array
    earliest: Int64Array
    """The first and the last operation that changed it."""
    latest: Int64Array

    def touched_by(self, start: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """First and last stretch that each interval overlaps; none where the first is larger."""
        first = np.searchsorted(self.end, start, side="right")
        last = np.searchsorted(self.start, end, side="left") - 1
        return first, last


def require_no_conflicts(accesses: list[Access]) -> None:
    """Raises `NotBatchable` unless every order of the chunk's programs gives what this one gave."""
    changes = [item for item in accesses if item.kind != "load" and item.runs.start.size]
    if not changes:
        return
    start = np.concatenate([item.runs.start for item in changes])
    end = np.concatenate([item.runs.end for item in changes])
    program = np.concatenate([item.runs.program for item in changes])
    # One atomic operation is applied in the programs' order. Of two, all programs do the first, then all
    # do the second, which is not the order one after another.
    tag = np.concatenate(
        [
            np.full(item.runs.start.size, _tag(item) if item.kind == "atomic" else _EVERYBODY)
            for item in changes
        ]
    )
    sequence = np.concatenate(
        [np.full(item.runs.start.size, item.sequence, np.int64) for item in changes]
    )
    changed = _clusters(start, end, program, tag, sequence)
    _require_no_updates_of_own_stores(changes)
    low, high = int(changed.start[0]), int(changed.end.max())
    for item in accesses:
        if item.kind != "load" or not item.runs.start.size:
            continue
        if int(item.runs.start.min()) >= high or int(item.runs.end.max()) <= low:
            continue
        first, last = changed.touched_by(item.runs.start, item.runs.end)
        some = last >= first
        if not some.any():
            continue
        first, last, reader = first[some], last[some], item.runs.program[some]
        step = np.cumsum(np.diff(changed.program, prepend=changed.program[:1]) != 0)
        own = (changed.program[first] == reader) & (step[first] == step[last])
        if not own.all():
            raise NotBatchable("a program reads what another program of the launch changes")
        _require_own_lanes(item, changed, first, last, changes)


def _require_own_lanes(
    load: Access, changed: Stretches, first: Int64Array, last: Int64Array, changes: list[Access]
) -> None:
    """Raises `NotBatchable` unless each thread loads what it stored itself, or there is a barrier between."""
    early = changed.earliest < load.sequence
    before = np.concatenate(([0], np.cumsum(early)))
    touched = before[last + 1] > before[first]
    if not touched.any():
        return
    ends = np.zeros(early.size + 1, np.int64)
    np.add.at(ends, first[touched], 1)
    np.add.at(ends, last[touched] + 1, -1)
    at = (np.cumsum(ends[:-1]) > 0) & early
    pairs = np.unique(np.stack([changed.earliest[at], changed.latest[at]]), axis=1)
    wanted = {n for low, high in pairs.T.tolist() for n in range(low, min(high + 1, load.sequence))}
    for item in changes:
        # No barrier makes a store visible to a copy through a descriptor.
        if item.sequence not in wanted or (item.barriers < load.barriers and not load.copied):
            continue
        if (load.copied or not item.same_threads(load)) and _meet(item, load):
            raise NotBatchable("a program reads what other threads of its own may have stored")


def _require_no_updates_of_own_stores(changes: list[Access]) -> None:
    """Raises `NotBatchable` where threads update what others may have stored, with no barrier between."""
    updates = [item for item in changes if item.kind == "atomic"]
    for item in changes if updates else ():
        for update in updates:
            early = item.kind == "store" and item.sequence < update.sequence
            open_ = early and item.barriers >= update.barriers and not item.same_threads(update)
            if open_ and _meet(item, update):
                raise NotBatchable(
                    "a program updates what other threads of its own may have stored"
                )


def _tag(access: Access) -> int:
    return _SEVERAL - access.order_free if access.order_free else access.sequence


def _meet(access: Access, other: Access) -> bool:
    """Whether any bytes are in both."""
    order = np.argsort(access.runs.start, kind="stable")
    start, reach = access.runs.start[order], np.maximum.accumulate(access.runs.end[order])
    before = np.searchsorted(start, other.runs.end, side="left")
    some = before > 0
    return bool((reach[before[some] - 1] > other.runs.start[some]).any())


def _clusters(
    start: Int64Array, end: Int64Array, program: Int64Array, tag: Int64Array, sequence: Int64Array
) -> Stretches:
    order = np.argsort(start, kind="stable")
    start, end, program, tag = start[order], end[order], program[order], tag[order]
    sequence = sequence[order]
    reach = np.maximum.accumulate(end)
    fresh = np.concatenate(([True], start[1:] >= reach[:-1]))
    at = np.flatnonzero(fresh)
    lowest, highest = np.minimum.reduceat(program, at), np.maximum.reduceat(program, at)
    several = lowest != highest
    if several.any():
        tags = np.minimum.reduceat(tag, at), np.maximum.reduceat(tag, at)
        alone = (tags[0] == tags[1]) & (tags[0] != _EVERYBODY)
        if (several & ~alone).any():
            raise NotBatchable("several programs change the same place")
    owner = np.where(several, _SEVERAL, lowest)
    earliest, latest = np.minimum.reduceat(sequence, at), np.maximum.reduceat(sequence, at)
    return Stretches(start[at], np.maximum.reduceat(end, at), owner, earliest, latest)


@dataclass
class Territory:
    """Merged memory ranges that earlier programs of a launch wrote or read."""

    start: Int64Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    end: Int64Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def add(self, start: Int64Array, end: Int64Array) -> None:
        start, end = np.concatenate((self.start, start)), np.concatenate((self.end, end))
        order = np.argsort(start, kind="stable")
        start, reach = start[order], np.maximum.accumulate(end[order])
        at = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
        self.start = start[at]
        self.end = reach[np.append(at[1:], reach.size) - 1]

    def meets(self, start: Int64Array, end: Int64Array) -> bool:
        """Whether any of the intervals overlaps what is held."""
        if not self.start.size or not start.size:
            return False
        first = np.searchsorted(self.end, start, side="right")
        inside = first < self.start.size
        return bool((self.start[first[inside]] < end[inside]).any())
