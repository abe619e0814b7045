"""Which programs of a large grid are counted: nobody but the judge knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelagent.tools.virtual.executor.launch import Launch
from kernelagent.tools.virtual.executor.sampling import BRIEF_RUN, BRIEF_RUNS, sampled


def launch_of(*grid: int) -> Launch:
    x, y, z = (*grid, 1, 1)[:3]
    return Launch(0, "kernel", 1, (x, y, z), (), {}, {})


def numbers(total: int, seed: int) -> list[int]:
    programs, share = sampled(launch_of(total), seed)
    assert programs is not None
    assert share == len(programs) / total
    return [x for x, _, _ in programs]


def test_a_small_grid_is_counted_whole():
    assert sampled(launch_of(256), 0) == (None, 1.0)


@pytest.mark.parametrize("total", [257, 300, 1000, 100_000])
def test_a_sample_has_programs_of_every_stretch_and_the_last_one(total: int):
    chosen = numbers(total, seed=1)
    assert len(set(chosen)) == len(chosen) == 257
    assert max(chosen) == total - 1
    assert all(any(part * total <= 8 * n < (part + 1) * total for n in chosen) for part in range(8))


def test_every_program_of_a_grid_is_in_some_sample():
    seen = set().union(*(numbers(640, seed) for seed in range(200)))
    assert seen == set(range(640))


def test_a_sample_of_a_grid_in_three_dimensions_lies_in_it():
    programs, _ = sampled(launch_of(10, 20, 30), 3)
    assert programs is not None
    assert all(x < 10 and y < 20 and z < 30 for x, y, z in programs)


def test_a_brief_count_has_programs_of_every_quarter_too():
    programs, share = sampled(launch_of(5000), 7, BRIEF_RUNS, BRIEF_RUN)
    assert programs is not None
    assert share == len(programs) / 5000 == 65 / 5000
    assert {4 * x // 5000 for x, _, _ in programs} == {0, 1, 2, 3}


def test_counts_that_are_compared_are_of_the_same_programs_and_others_are_not():
    launch = launch_of(5000)
    assert sampled(launch, 7) == sampled(launch, 7)
    assert sampled(launch, 7) != sampled(launch, 8)
    assert sampled(launch, 7) != sampled(replace(launch, index=1), 7)
