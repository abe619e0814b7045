"""Which operations of a chunk have bytes in common: found by sorting, since a loop of many steps has very many pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelagent.tools.virtual.batched.accesses import Access, Int64Array

_LOOKED_AT = 1 << 22
"""More pairs of stretches than this are not looked at one by one."""
Pairs = list[tuple[int, int]]


def may_overlap(accesses: Sequence[Access]) -> Pairs:
    """Pairs of places in `accesses`, the earlier first, in order, of which one changes what the other has.

    Some may not meet after all: where stretches differ so much in length that too many would have to be compared,
    operations are paired by the range from their first byte to their last. `meet` says it of one pair.
    """
    near = _near_changes(accesses)
    if near.size < 2:
        return []
    runs = [accesses[at].runs for at in near.tolist()]
    start, end = (
        np.concatenate(parts) for parts in zip(*((r.start, r.end) for r in runs), strict=True)
    )
    owner = np.repeat(near, [r.start.size for r in runs])
    order = np.argsort(start, kind="stable")
    start, end, owner = start[order], end[order], owner[order]
    changes = np.array([item.kind != "load" for item in accesses])
    mine = np.flatnonzero(changes[owner])
    first = np.searchsorted(np.maximum.accumulate(end), start[mine], side="right")
    count = np.searchsorted(start, end[mine], side="left") - first
    total = int(count.sum())
    if total > _LOOKED_AT:
        return _by_range(accesses, near, changes)
    which = np.repeat(mine, count)
    other = np.arange(total) + np.repeat(first - (np.cumsum(count) - count), count)
    both = (end[other] > start[which]) & (owner[other] != owner[which])
    return _unique(owner[which[both]], owner[other[both]], len(accesses))


def meet(access: Access, other: Access) -> bool:
    """Whether any bytes are in both."""
    order = np.argsort(access.runs.start, kind="stable")
    start, reach = access.runs.start[order], np.maximum.accumulate(access.runs.end[order])
    before = np.searchsorted(start, other.runs.end, side="left")
    some = before > 0
    return bool((reach[before[some] - 1] > other.runs.start[some]).any())


def _near_changes(accesses: Sequence[Access]) -> Int64Array:
    """Places of the operations whose range touches that of a store or an atomic, these included."""
    held = [at for at, item in enumerate(accesses) if item.runs.start.size]
    changed = [at for at in held if accesses[at].kind != "load"]
    if not changed:
        return np.empty(0, np.int64)
    low, high = _ranges(accesses, held)
    of_changes = np.isin(held, changed)
    order = np.argsort(low[of_changes], kind="stable")
    starts, reach = low[of_changes][order], np.maximum.accumulate(high[of_changes][order])
    before = np.searchsorted(starts, high, side="left")
    touching = (before > 0) & (reach[before - 1] > low)
    return np.array(held)[touching]


def _by_range(accesses: Sequence[Access], near: Int64Array, changes: Int64Array) -> Pairs:
    low, high = _ranges(accesses, near.tolist())
    pairs = []
    for at in np.flatnonzero(changes[near]).tolist():
        others = np.flatnonzero((low < high[at]) & (high > low[at]))
        pairs.append(np.stack([np.full(others.size, near[at]), near[others]]))
    first, second = np.concatenate(pairs, axis=1)
    different = first != second
    return _unique(first[different], second[different], len(accesses))


def _ranges(accesses: Sequence[Access], places: Sequence[int]) -> tuple[Int64Array, Int64Array]:
    low = np.array([int(accesses[at].runs.start.min()) for at in places])
    high = np.array([int(accesses[at].runs.end.max()) for at in places])
    return low, high


def _unique(first: Int64Array, second: Int64Array, count: int) -> Pairs:
    """Each pair once, by the later one and then by the earlier."""
    keys = np.unique(np.maximum(first, second) * count + np.minimum(first, second))
    return [(key % count, key // count) for key in keys.tolist()]
