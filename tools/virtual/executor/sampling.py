"""Which programs of a large grid are run where a part of them speaks for all."""

from __future__ import annotations

import itertools
import random

from kernelagent.tools.virtual.executor.launch import Launch
from kernelagent.tools.virtual.interpreter.interpreter import Program

RUNS, RUN = 8, 32
"""Runs of neighbours, and how many are in each."""
BRIEF_RUNS, BRIEF_RUN = 4, 16
"""The same where seconds matter (`brief_counting`)."""
DRAWN_RUN = 5
"""Neighbours of a run where what programs store is compared."""


def sampled(
    launch: Launch, sample: int, runs: int = RUNS, run: int = RUN
) -> tuple[list[Program] | None, float]:
    """So many runs of neighbours, which share cache lines: one in each stretch of the grid, and the last program.

    Where in its stretch a run lies is drawn by `sample`, and in which order they run, because time may end early.
    Returns the programs, None for all, and the share of the grid that they are.
    """
    total = launch.programs
    if total <= runs * run:
        return None, 1.0
    numbers: list[int] = []
    places = random.Random(f"{sample} {launch.index}")
    edges = [i * (total - 1) // runs for i in range(runs + 1)]
    for low, high in places.sample(list(itertools.pairwise(edges)), runs):
        start = low + places.randrange(high - low - run + 1)
        numbers += range(start, start + run)
    numbers.append(total - 1)
    x, y, _ = launch.grid
    return [(n % x, n // x % y, n // (x * y)) for n in numbers], len(numbers) / total
