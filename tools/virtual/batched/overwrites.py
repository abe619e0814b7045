"""Whether a store of a chunk may come before what the same program's text has before it, in other threads.

The one-by-one interpreter looks lane by lane (`overwrites` beside this package) and names the fault.
"""

from __future__ import annotations

import numpy as np

from kernelagent.tools.virtual.batched.accesses import Access, Int64Array, NotBatchable
from kernelagent.tools.virtual.memory_operations import Threads

_Sorted = tuple[Int64Array, Int64Array]
"""Starts in order, and the furthest end so far."""


def require_stores_in_order(accesses: list[Access], threads: Threads) -> None:
    """Raises `NotBatchable` where a store meets an earlier access with no barrier between, and other threads may have it.

    Stores of equal values are among these.
    """
    some = [item for item in accesses if item.runs.start.size and not item.copied]
    if not any(item.kind == "store" for item in some):
        return
    low = np.array([int(item.runs.start.min()) for item in some])
    high = np.array([int(item.runs.end.max()) for item in some])
    barriers = np.array([item.barriers for item in some])
    known: dict[int, _Sorted] = {}
    for at, store in enumerate(some):
        if store.kind != "store":
            continue
        near = (low[:at] < high[at]) & (high[:at] > low[at]) & (barriers[:at] >= store.barriers)
        for number in np.flatnonzero(near).tolist():
            if _open(some[number], store, threads) and _meet(some[number], store, known):
                raise NotBatchable("a program stores over what other threads of its own may access")


def _open(earlier: Access, store: Access, threads: Threads) -> bool:
    """Whether other threads may have an address of both, and no barrier of the code's own is between."""
    first, barriers = (earlier.kind, earlier.line), threads.barriers
    if not earlier.same_lanes(store):
        return barriers.missing(first, ("store", store.line))
    mine, its = (threads.ways_of(item.kind, item.line, item.shape) for item in (earlier, store))
    moved = bool(mine and its and mine.isdisjoint(its))
    return moved and barriers.missing(first, ("store", store.line), of_warps=False)


def _meet(earlier: Access, store: Access, known: dict[int, _Sorted]) -> bool:
    """Whether any bytes are in both; of other programs' `require_no_conflicts` has seen to it."""
    held = known.get(earlier.sequence)
    if held is None:
        order = np.argsort(earlier.runs.start, kind="stable")
        reach = np.maximum.accumulate(earlier.runs.end[order])
        held = known[earlier.sequence] = earlier.runs.start[order], reach
    before = np.searchsorted(held[0], store.runs.end, side="left")
    some = before > 0
    return bool((held[1][before[some] - 1] > store.runs.start[some]).any())
