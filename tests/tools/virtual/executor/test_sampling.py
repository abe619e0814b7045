"""Which programs of a large grid are counted: nobody but the judge knows."""

from __future__ import annotations

import pytest

from kernelagent.tools.virtual.executor.launch import Launch
from kernelagent.tools.virtual.executor.sampling import BRIEF_RUNS, sampled


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


def test_a_brief_count_runs_a_part_of_what_a_whole_one_does():
    whole, _ = sampled(launch_of(5000), 7)
    brief, share = sampled(launch_of(5000), 7, BRIEF_RUNS)
    assert whole is not None
    assert brief is not None
    assert brief == [*whole[:64], whole[-1]]
    assert share == 65 / 5000
