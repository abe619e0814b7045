"""What the recorder of launches costs a launch, in microseconds: Triton's launcher, a driver that does nothing.

`python -m benchmarks.recorder_cost [--write FILE]`. Each state of the recorder is timed in batches, in
turns, in one process; the least of many batches is what the code needs, the median is what it got on a
machine with other work on it. The limit holds for the state in which a candidate is timed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.compiler import CompiledKernel

from benchmarks.nothing_driver import install
from kernelagent.tools.candidate_runner.launches import Launches, watch_launches

BATCHES = 300
LAUNCHES = 200
"""In a batch."""
LIMIT_US = 1.0
WITHOUT, RECORDING, ASIDE = "no recorder", "recording", "while timing"


@triton.jit
def _twice(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(y + at, 2 * tl.load(x + at, mask=inside), mask=inside)


@contextlib.contextmanager
def recorded(state: str) -> Iterator[Launches]:
    """The recorder in one of its states, and Triton as it was afterwards."""
    kept = CompiledKernel.run
    launches = Launches(__file__)
    if state != WITHOUT:
        watch_launches(launches)
    if state == ASIDE:
        launches.stand_aside()
    try:
        yield launches
    finally:
        CompiledKernel.run = kept


def measured(batches: int = BATCHES) -> dict[str, list[float]]:
    """Microseconds a launch in each batch, by state; `install` must have been called."""
    x, y = torch.ones(1024), torch.empty(1024)

    def launch() -> None:
        _twice[(1,)](x, y, 1024, BLOCK=1024)

    result: dict[str, list[float]] = {state: [] for state in (WITHOUT, RECORDING, ASIDE)}
    launch()
    for _ in range(batches):
        for state, times in result.items():
            with recorded(state) as launches:
                times.append(_batch(launch))
                launches.take()
    return result


def _batch(launch: Callable[[], None]) -> float:
    launch()
    began = time.perf_counter()
    for _ in range(LAUNCHES):
        launch()
    return (time.perf_counter() - began) / LAUNCHES * 1e6


def page(found: dict[str, list[float]]) -> str:
    """The table, as Markdown."""
    load = os.getloadavg()[0]
    bare = min(found[WITHOUT])
    lines = [
        "# What the recorder of launches costs a launch",
        "",
        f"`python -m benchmarks.recorder_cost --write benchmarks/results/recorder_cost.md`, Python "
        f"{platform.python_version()}, torch {torch.__version__}, triton {triton.__version__}, "
        f"{os.cpu_count()} cores at a load of {load:.1f}; microseconds a launch, of {BATCHES} batches "
        f"of {LAUNCHES}, through Triton's own launcher and a driver that does nothing. The cost is the "
        f"difference of the least.",
        "",
        "| recorder | least | median | cost |",
        "|---|--:|--:|--:|",
    ]
    lines += [
        f"| {state} | {min(times):.2f} | {statistics.median(times):.2f} | {min(times) - bare:+.2f} |"
        for state, times in found.items()
    ]
    cost = min(found[ASIDE]) - bare
    lines += [
        "",
        f"While a candidate is timed it costs {cost:+.2f} µs; the limit is {LIMIT_US:g} µs.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        install(Path(folder))
        result = measured()
    text = page(result)
    if options.write is not None:
        options.write.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return int(min(result[ASIDE]) - min(result[WITHOUT]) > LIMIT_US)


if __name__ == "__main__":
    sys.exit(main())
