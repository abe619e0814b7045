"""Whether a store or an atomic of a chunk may come before what the same program's text has before it, in other threads.

The one-by-one interpreter looks lane by lane (`overwrites` beside this package) and names the fault.
"""

from __future__ import annotations

import numpy as np

from kernelagent.tools.virtual.batched.accesses import Access, Int64Array, NotBatchable
from kernelagent.tools.virtual.compiled.memory_operations import Threads

_Sorted = tuple[Int64Array, Int64Array]
"""Starts in order, and the furthest end so far."""


def require_changes_in_order(accesses: list[Access], threads: Threads) -> None:
    """Raises `NotBatchable` where a store or an atomic meets an earlier access with no barrier between.

    Where other threads may have it, that is. Stores of equal values are among these, and atomics that change nothing.
    """
    some = [item for item in accesses if item.runs.start.size and not item.copied]
    if all(item.kind == "load" for item in some):
        return
    low = np.array([int(item.runs.start.min()) for item in some])
    high = np.array([int(item.runs.end.max()) for item in some])
    barriers = np.array([item.barriers for item in some])
    known: dict[int, _Sorted] = {}
    for at, change in enumerate(some):
        if change.kind == "load":
            continue
        near = (low[:at] < high[at]) & (high[:at] > low[at]) & (barriers[:at] >= change.barriers)
        for number in np.flatnonzero(near).tolist():
            earlier = some[number]
            if _in_any_order(earlier, change) or not _open(earlier, change, threads):
                continue
            if _meet(earlier, change, known):
                raise NotBatchable("a program changes what other threads of its own may access")


def require_copies_in_order(accesses: list[Access], threads: Threads) -> None:
    """Raises `NotBatchable` where a program may meet a store through a descriptor that has not ended.

    Or where such a store meets what the program wrote by pointers before. Loads through descriptors are compared with
    all stores elsewhere (`conflicts`).
    """
    some = [item for item in accesses if item.runs.start.size]
    if not any(item.in_bulk for item in some):
        return
    low = np.array([int(item.runs.start.min()) for item in some])
    high = np.array([int(item.runs.end.max()) for item in some])
    known: dict[int, _Sorted] = {}
    for at, later in enumerate(some):
        for number in np.flatnonzero((low[:at] < high[at]) & (high[:at] > low[at])).tolist():
            if _copied_besides(some[number], later, threads) and _meet(some[number], later, known):
                raise NotBatchable("a program meets what a copy of its own may be writing")


def _copied_besides(earlier: Access, later: Access, threads: Threads) -> bool:
    if earlier.in_bulk:
        return threads.barriers.under_way(earlier.line, (later.kind, later.line))
    return later.in_bulk and earlier.kind != "load"


def _in_any_order(earlier: Access, change: Access) -> bool:
    """Atomics that may change places; of one on what was stored before, `conflicts` knows."""
    if change.update is None:
        return False
    if earlier.update is not None:
        return earlier.update.may_change_places_with(change.update)
    return earlier.kind == "store"


def _open(earlier: Access, change: Access, threads: Threads) -> bool:
    """Whether other threads may have an address of both, and no barrier of the code's own is between."""
    first, then, barriers = (
        (earlier.kind, earlier.line),
        (change.kind, change.line),
        threads.barriers,
    )
    if not earlier.same_lanes(change):
        return barriers.missing(first, then)
    mine, its = (threads.ways_of(item.kind, item.line, item.shape) for item in (earlier, change))
    moved = bool(mine and its and mine.isdisjoint(its))
    return moved and barriers.missing(first, then, of_warps=False)


def _meet(earlier: Access, change: Access, known: dict[int, _Sorted]) -> bool:
    """Whether any bytes are in both; of other programs' `require_no_conflicts` has seen to it."""
    held = known.get(earlier.sequence)
    if held is None:
        order = np.argsort(earlier.runs.start, kind="stable")
        reach = np.maximum.accumulate(earlier.runs.end[order])
        held = known[earlier.sequence] = earlier.runs.start[order], reach
    before = np.searchsorted(held[0], change.runs.end, side="left")
    some = before > 0
    return bool((held[1][before[some] - 1] > change.runs.start[some]).any())
