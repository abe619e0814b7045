"""The fake machine's clock in place of `time.perf_counter`: it stands still but for what the device does.

Durations are taken with `perf_counter`, so they are the device's here, the same on a busy host. Deadlines
are taken with `monotonic`, which stays the host's.
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path


def install(libraries: Path) -> None:
    """Read the clock beside `libraries` from now on; without one `perf_counter` stays as it is."""
    path = libraries / "clock"
    if not path.is_file():
        return
    with path.open("rb") as file:
        # Forks share it, also where the file itself is out of their reach.
        seconds = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).cast("d")

    def perf_counter() -> float:
        return seconds[0]

    def perf_counter_ns() -> int:
        return int(seconds[0] * 1e9)

    time.perf_counter, time.perf_counter_ns = perf_counter, perf_counter_ns
