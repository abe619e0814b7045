"""A term: one kernel as bytes and operations with shape features; and the GPU that it runs on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelagent.tools.estimates.operations import Operand
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings

Features = Mapping[str, float]
_WAIT_US = 0.5
"""From one load to the next: latency of DRAM under load, and what the block does in between (assumption)."""


@dataclass(frozen=True)
class Term:
    """One kernel, or several alike that run one after another."""

    family: str
    """The class that its interval and its constants belong to."""
    bytes_us: float = 0.0
    """At peak bandwidth, before the constants."""
    math_us: float = 0.0
    """Operations at the peak rate, or, where `math_by` has `waits`, loads one after another."""
    bytes_by: Features = field(default_factory=dict)
    math_by: Features = field(default_factory=dict)
    steps: float = 0.0
    """Dependent steps inside that cost a latency each."""
    kernels: int = 1


@dataclass(frozen=True)
class Site:
    """Where a kernel runs: the GPU, and how much of what it reads comes from DRAM."""

    gpu: DeviceCeilings
    cold_share: float

    def bytes_us(self, size: float, cold_share: float | None = None) -> float:
        cold = self.cold_share if cold_share is None else cold_share
        return (
            1e6 * size * (cold / self.gpu.dram_bytes_per_s + (1 - cold) / self.gpu.l2_bytes_per_s)
        )

    def fp32_us(self, flops: float) -> float:
        return 1e6 * flops / self.gpu.fp32_flops_per_s

    def dot_us(self, flops: float, kind: str) -> float:
        return 1e6 * flops / self.gpu.dot_rate(kind)

    def waits_us(self, blocks: float, threads: int, loads: float) -> float:
        """Time of blocks that load one piece after another and work on each before the next load."""
        at_once = self.gpu.sms * min(self.gpu.blocks_per_sm, self.gpu.threads_per_sm // threads)
        return math.ceil(blocks / at_once) * (1 + loads) * _WAIT_US

    def starved(self, blocks: float, each: float = 1.0) -> float:
        """How few blocks there are for the multiprocessors: 0 where there are enough."""
        return max(0.0, math.log(each * self.gpu.sms / max(1.0, blocks)))

    def uneven(self, tiles: float) -> float:
        """What the last round of tiles leaves idle."""
        rounds = tiles / self.gpu.sms
        return math.log(math.ceil(rounds) / rounds) if rounds > 0 else 0.0


def bytes_of(operands: tuple[Operand, ...]) -> int:
    """Bytes that these operands move."""
    return sum(o.moved_bytes for o in operands)


def log_of(value: float, least: float = 1.0) -> float:
    """The logarithm of a value that is no less than `least`."""
    return math.log(max(value, least))
