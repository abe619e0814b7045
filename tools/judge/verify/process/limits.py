"""What one candidate may use: time, memory, processes, files."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

from kernelagent.domain.configuration.judge_settings import LAST_JUDGING, JudgeSettings
from kernelagent.tools.judge.problem.memory_limit import memory_limit


class Deadline:
    """The end of one whole judging, shared by all its processes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return max(0.0, self._end - time.monotonic())


@dataclass(frozen=True)
class Limits:
    """What one candidate may use."""

    load_s: float = 60.0
    call_s: float = 120.0
    measure_s: float = 600.0
    """One block of timed calls, compiling and tuning in its first."""
    launch_s: float = 60.0
    """Interpretation budget of one process on `virtual`."""
    judging_s: float = 120.0
    """All of one candidate's judging on `virtual`."""
    memory_bytes: int = 8 << 30
    cpu_s: int = 600
    file_bytes: int = 1 << 30
    processes: int = 256
    answer_bytes: int = 1 << 34

    @property
    def of_the_last_judging(self) -> Limits:
        """Of a winner judged again: more time, while what a process can read stays the same."""
        return replace(self.times(LAST_JUDGING), load_s=self.load_s)

    def times(self, factor: float) -> Limits:
        """So many times the seconds by the clock, as on a machine that others keep busy (`how_busy`)."""
        return replace(
            self,
            load_s=factor * self.load_s,
            call_s=factor * self.call_s,
            launch_s=factor * self.launch_s,
            judging_s=factor * self.judging_s,
        )


_LEAST_MEMORY = 1 << 30
_MOST_BUSY = 4.0


def how_busy() -> float:
    """How many processes wanted each core in the last minute, from 1 to 4: so much longer ours take by the clock.

    A candidate that asks for all cores itself is ended four times as late at most.
    """
    return min(_MOST_BUSY, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def limits_for(settings: JudgeSettings, device: str) -> Limits:
    """The usual limits; on `virtual` a process of a candidate has half of the judge's memory at most."""
    usual = Limits()
    if device != "virtual":
        return usual
    half = max(_LEAST_MEMORY, memory_limit(settings) // 2)
    seconds = settings.judging_seconds
    return replace(
        usual,
        memory_bytes=min(usual.memory_bytes, half),
        judging_s=seconds,
        call_s=seconds,
        launch_s=seconds / 2,
        cpu_s=max(usual.cpu_s, int(seconds)),
    )
