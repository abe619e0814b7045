"""Counts what a launch moves and computes while the interpreter runs it.

An access is counted in whole sectors, as the hardware moves them; what it costs in DRAM depends on
what the L2 cache still holds from earlier accesses, launches and torch operations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.cost.launch_count import LaunchCount
from kernelagent.tools.virtual.cost.residency import AddressSpace, L2Cache
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts
from kernelagent.tools.virtual.executor.launch import AccessKind, Launch, OperationKind


class TrafficCounter:
    """An observer; one per forward, or one for several that find the cache warm.

    `sampled_share` is the share of its programs the next launch runs, and may be set between
    launches. Below 1 the launch gets a cache of its own, which starts with what earlier launches
    left, and afterwards the shared cache sees the whole tensors: a sample of one launch says
    nothing about which sectors a sample of the next one finds.
    """

    def __init__(
        self, target: str, sampled_share: float = 1.0, cache: L2Cache | None = None
    ) -> None:
        self.ceilings = ceilings_for(target)
        self.sampled_share = sampled_share
        self.cache = cache or L2Cache(AddressSpace(), self.ceilings.l2_bytes)
        """Shared with `eager.EagerTraffic` when both watch one forward."""
        self._results: dict[int, TrafficFacts] = {}
        self._count: LaunchCount | None = None

    def launch_begins(self, launch: Launch) -> None:
        cached = self.ceilings.cached_tensor_bytes
        sampled = self.sampled_share < 1
        self._count = LaunchCount(launch, self.cache, cached, sampled=sampled)

    def program_begins(self, program: tuple[int, int, int]) -> None:
        self._running.program_begins()

    def access(
        self, kind: AccessKind, addresses: NDArray[np.uint64], item_bytes: int, lanes: int
    ) -> None:
        self._running.access(kind, addresses, item_bytes, lanes)

    def operation(self, kind: OperationKind, count: int, dtype: str) -> None:
        running = self._running
        if kind == "longest":
            running.longest[dtype] = max(running.longest[dtype], count)
        else:
            running.operations[kind, dtype] += count

    @property
    def running(self) -> LaunchCount:
        """The launch under way, for who counts many programs at once."""
        return self._running

    def launch_ends(self, launch: Launch) -> None:
        count = self._running
        self._results[launch.index] = count.facts(
            self.ceilings.sms, self.ceilings.cached_tensor_bytes
        )
        count.settle()
        self._count = None

    def result(self, launch: Launch) -> TrafficFacts:
        """Facts of a launch that has ended; raises KeyError for any other."""
        return self._results[launch.index]

    def clear(self) -> None:
        """Forget results and what the cache holds: the next forward starts cold."""
        self._results.clear()
        self.cache.clear()

    @property
    def _running(self) -> LaunchCount:
        if self._count is None:
            raise RuntimeError("an access or operation was reported outside a launch")
        return self._count
