"""Whether a store or an atomic of a chunk may come before what the same program's text has before it, in other threads.

The one-by-one interpreter looks lane by lane (`overwrites` beside this package) and names the fault.
"""

from __future__ import annotations

from kernelagent.tools.virtual.batched.accesses import Access, NotBatchable
from kernelagent.tools.virtual.batched.between_programs.overlaps import Pairs, meet
from kernelagent.tools.virtual.compiled.memory_operations import Threads


def require_changes_in_order(accesses: list[Access], pairs: Pairs, threads: Threads) -> None:
    """Raises `NotBatchable` where a store or an atomic meets an earlier access with no barrier between.

    Where other threads may have it, that is. Stores of equal values are among these, and atomics that change nothing.
    `pairs`: those of `may_overlap`. What other programs have, `require_no_conflicts` has looked at.
    """
    for first, then in pairs:
        earlier, change = accesses[first], accesses[then]
        if change.kind == "load" or earlier.copied or earlier.barriers < change.barriers:
            continue
        if _in_any_order(earlier, change) or not _open(earlier, change, threads):
            continue
        if meet(earlier, change):
            raise NotBatchable("a program changes what other threads of its own may access")


def require_copies_in_order(accesses: list[Access], pairs: Pairs, threads: Threads) -> None:
    """Raises `NotBatchable` where a program may meet a store through a descriptor that has not ended.

    Or where such a store meets what the program wrote by pointers before. Loads through descriptors are compared with
    all stores elsewhere (`conflicts`).
    """
    for first, then in pairs:
        earlier, later = accesses[first], accesses[then]
        if _copied_besides(earlier, later, threads) and meet(earlier, later):
            raise NotBatchable("a program meets what a copy of its own may be writing")


def require_stored_in_time(accesses: list[Access], pairs: Pairs) -> None:
    """Raises `NotBatchable` where a load meets what the same program stored before, of a kernel that makes loads ahead.

    Which loads of which loops those are, the one-by-one interpreter looks at.
    """
    for first, then in pairs:
        earlier, later = accesses[first], accesses[then]
        if earlier.kind != "load" and later.kind == "load" and meet(earlier, later):
            late = "a load that is fetched ahead may come before a store of its loop"
            raise NotBatchable(late, always=True)


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
