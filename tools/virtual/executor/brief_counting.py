"""What a count leaves out where seconds matter and no verdict hangs on it: a writer's `check`.

Few programs of a large grid are counted, and of launches that are the same but for their numbers and their tensors'
places, a step of a recurrence for example, the first three and then ever fewer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts
from kernelagent.tools.virtual.executor.launch import Launch

FIRST_TOGETHER = 16
"""Programs that are tried together first: of long loops more are too many, which shows when half of the work is done."""
ENOUGH_S = 0.5
"""Seconds of one launch, after which what is counted so far is scaled up."""
_FIRST = 3
_ALIKE = 0.02


class BriefCounting:
    """The launches of one counted call, and what is known of those that repeat."""

    def __init__(self) -> None:
        self._met: Counter[Hashable] = Counter()
        self._known: dict[Hashable, tuple[TrafficFacts, ...]] = {}

    def repeated(self, handle: int, launch: Launch) -> TrafficFacts | None:
        """What this launch moves, by the last that was counted of its like; None where it is to be counted itself."""
        key = _likeness(handle, launch)
        before = self._met[key]
        self._met[key] += 1
        known = self._known.get(key, ())
        power_of_two = before & (before - 1) == 0
        if before < _FIRST or power_of_two or len(known) < 2 or not _alike(*known):
            return None
        return known[-1]

    def count(self, handle: int, launch: Launch, traffic: TrafficFacts) -> None:
        """Keep what was counted of a launch."""
        key = _likeness(handle, launch)
        self._known[key] = (*self._known.get(key, ()), traffic)[-2:]


def _likeness(handle: int, launch: Launch) -> Hashable:
    """Equal for launches of one kernel on tensors of the same sizes."""
    tensors = tuple((t.dtype, t.shape, t.strides) for t in launch.tensors)
    return handle, launch.grid, tuple(launch.constexprs.items()), tuple(launch.scalars), tensors


def _alike(one: TrafficFacts, other: TrafficFacts) -> bool:
    pairs = (
        (one.requested_load_bytes, other.requested_load_bytes),
        (one.requested_store_bytes, other.requested_store_bytes),
        (one.fp_operations, other.fp_operations),
        (sum(one.dot_flops.values()), sum(other.dot_flops.values())),
    )
    return all(abs(a - b) <= _ALIKE * max(a, b) for a, b in pairs)
