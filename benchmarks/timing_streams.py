"""Synthetic clocks with the faults of real ones; the true ratio of two processes is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Stream:
    """What disturbs a reading; all amounts are of the time's natural logarithm."""

    words: str
    noise: float = 0.0
    """Independent normal noise of each reading."""
    warming: float = 0.0
    """Added with every reading, on either side, as long as the certificate lasts."""
    slow_state: float = 0.0
    """How much slower the device's second clock state is."""
    state_change: float = 0.0
    """Chance that the state changes before a reading."""
    tail: float = 0.0
    """Scale of Pareto outliers (exponent 1.2: infinite variance)."""
    outliers: float = 0.0
    """Share of readings that are outliers."""
    device_walk: float = 0.0
    """Standard deviation of the device's own AR(1) noise, which both sides see."""
    process_walk: float = 0.0
    """Standard deviation of AR(1) noise of each process."""
    memory: float = 0.0
    """Coefficient of both AR(1) noises."""
    process: float = 0.0
    """Standard deviation of what a process keeps for its whole life."""


STREAMS = {
    "lognormal": Stream("independent lognormal noise, 2 %", noise=0.02),
    "drift": Stream("0.2 % slower with every reading, 1 % noise", noise=0.01, warming=0.002),
    "bimodal": Stream(
        "two clock states 8 % apart, changing before one reading in ten, 1 % noise",
        noise=0.01,
        slow_state=0.08,
        state_change=0.1,
    ),
    "heavy tail": Stream(
        "one reading in five a Pareto outlier of infinite variance, 1 % noise",
        noise=0.01,
        tail=0.03,
        outliers=0.2,
    ),
    "autocorrelated": Stream(
        "AR(1) with coefficient 0.95, 2 % of the device and 0.7 % of each process, 0.5 % noise",
        noise=0.005,
        device_walk=0.02,
        process_walk=0.007,
        memory=0.95,
    ),
    "process offsets": Stream(
        "each process off by 0.8 % for its whole life, 1 % noise", noise=0.01, process=0.008
    ),
    "everything": Stream(
        "all of the above at once, each milder",
        noise=0.005,
        warming=0.0005,
        slow_state=0.04,
        state_change=0.05,
        tail=0.02,
        outliers=0.05,
        device_walk=0.01,
        process_walk=0.004,
        memory=0.9,
        process=0.005,
    ),
}


class World:
    """One device during one certificate; all processes on it share its clock, warmth and mood."""

    def __init__(self, stream: Stream, chance: Random) -> None:
        self._stream = stream
        self._chance = chance
        self._readings = 0
        self._slow = chance.random() < 0.5
        self._walk = chance.gauss(0, stream.device_walk)

    def process(self, true_us: float) -> Callable[[], float]:
        """A new process; each call is one reading of its time per call, in microseconds."""
        stream, chance = self._stream, self._chance
        offset = math.log(true_us) + chance.gauss(0, stream.process)
        walk = chance.gauss(0, stream.process_walk)

        def read() -> float:
            nonlocal walk
            walk = self._step(walk, stream.process_walk)
            return math.exp(offset + walk + self._disturbance() + chance.gauss(0, stream.noise))

        return read

    def _disturbance(self) -> float:
        stream, chance = self._stream, self._chance
        self._readings += 1
        if chance.random() < stream.state_change:
            self._slow = not self._slow
        self._walk = self._step(self._walk, stream.device_walk)
        hit = chance.random() < stream.outliers
        outlier = math.log1p(stream.tail * chance.paretovariate(1.2)) if hit else 0.0
        slow = stream.slow_state if self._slow else 0.0
        return self._walk + slow + outlier + stream.warming * self._readings

    def _step(self, walk: float, deviation: float) -> float:
        memory = self._stream.memory
        return memory * walk + math.sqrt(1 - memory * memory) * self._chance.gauss(0, deviation)
