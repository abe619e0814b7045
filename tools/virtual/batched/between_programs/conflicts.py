"""Whether programs of a launch access the same memory, so that their order affects the result."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kernelagent.tools.virtual.batched.accesses import Access, Int64Array, NotBatchable
from kernelagent.tools.virtual.batched.between_programs.overlaps import Pairs, meet

_EVERYBODY = -1
_SEVERAL = -2


@dataclass(frozen=True)
class Stretches:
    """Disjoint stretches of memory in order, and the program that has each."""

    start: Int64Array
    end: Int64Array
    program: Int64Array

    def touched_by(self, start: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """First and last stretch that each interval overlaps; none where the first is larger."""
        first = np.searchsorted(self.end, start, side="right")
        last = np.searchsorted(self.start, end, side="left") - 1
        return first, last


def require_no_conflicts(accesses: list[Access], pairs: Pairs) -> None:
    """Raises `NotBatchable` unless every order of the chunk's programs gives what this one gave.

    `pairs`: those of `may_overlap`.
    """
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
    changed = _clusters(start, end, program, tag)
    low, high = int(changed.start[0]), int(changed.end.max())
    step = np.cumsum(np.diff(changed.program, prepend=changed.program[:1]) != 0)
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
        own = (changed.program[first] == reader) & (step[first] == step[last])
        if not own.all():
            raise NotBatchable("a program reads what another program of the launch changes")
    _require_own_lanes(accesses, pairs)


def _require_own_lanes(accesses: list[Access], pairs: Pairs) -> None:
    """Raises `NotBatchable` unless each thread loads what it stored itself, or there is a barrier between.

    The same of atomics on what was stored.
    """
    for first, then in pairs:
        change, later = accesses[first], accesses[then]
        # No barrier makes a store visible to a copy through a descriptor.
        if change.kind == "load" or (change.barriers < later.barriers and not later.copied):
            continue
        if later.kind == "load":
            doing = "reads" if later.copied or not change.same_threads(later) else ""
        else:
            updates = later.kind == "atomic" and change.kind == "store"
            doing = "updates" if updates and not change.same_threads(later) else ""
        if doing and meet(change, later):
            raise NotBatchable(f"a program {doing} what other threads of its own may have stored")


def _tag(access: Access) -> int:
    return _SEVERAL - access.order_free if access.order_free else access.sequence


def _clusters(
    start: Int64Array, end: Int64Array, program: Int64Array, tag: Int64Array
) -> Stretches:
    order = np.argsort(start, kind="stable")
    start, end, program, tag = start[order], end[order], program[order], tag[order]
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
    return Stretches(start[at], np.maximum.reduceat(end, at), owner)


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
