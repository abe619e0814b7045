"""Which share of an operation's bytes crosses DRAM, by whole tensors: the L2 cache keeps recent small ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from kernelagent.tools.estimates.operations import Operation

_KEPT_SHARE = 0.5
"""A tensor up to this share of the L2 capacity is still cached for the next operation (assumption)."""


def cold_shares(operations: Sequence[Operation], l2_bytes: int) -> list[float]:
    """For each operation, the share of its bytes that crosses DRAM; the cache is cold at the start."""
    held: OrderedDict[int, int] = OrderedDict()
    shares = []
    for operation in operations:
        cold = 0
        for operand in operation.reads:
            cold += max(0, operand.moved_bytes - held.get(operand.key, 0))
        for operand in operation.writes:
            # What stays in the cache is written back later, while something else runs.
            cold += 0 if operand.moved_bytes <= _KEPT_SHARE * l2_bytes else operand.moved_bytes
        for operand in (*operation.reads, *operation.writes):
            _touch(held, operand.key, operand.moved_bytes, l2_bytes)
        shares.append(cold / operation.bytes if operation.bytes else 1.0)
    return shares


def _touch(held: OrderedDict[int, int], key: int, size: int, l2_bytes: int) -> None:
    held.pop(key, None)
    if size > _KEPT_SHARE * l2_bytes:
        return
    held[key] = size
    while sum(held.values()) > l2_bytes:
        held.popitem(last=False)
