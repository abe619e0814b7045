"""What a brief count leaves out: launches that repeat."""

from __future__ import annotations

from dataclasses import replace

import torch

from kernelagent.models.compiler.templates.matmul.pricing import launch_traffic
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts
from kernelagent.tools.virtual.executor.brief_counting import BriefCounting
from kernelagent.tools.virtual.executor.launch import Launch
from tests.tools.virtual.arguments import tensor_argument


def traffic(loaded: int) -> TrafficFacts:
    return launch_traffic(
        programs=1,
        requested=loaded,
        sectors=loaded,
        distinct=loaded,
        from_dram=loaded,
        stored=0,
    )


def launch(step: int, length: int = 64) -> Launch:
    given = tensor_argument("x", torch.zeros(length))
    return Launch(step, "advance", 1, (4, 1, 1), (given,), {"step": step}, {"BLOCK": 16})


def counted(count: BriefCounting, steps: range, loaded: int = 100) -> list[int]:
    """The steps that are counted themselves."""
    result = []
    for step in steps:
        if count.repeated(0, launch(step)) is None:
            count.count(0, launch(step), traffic(loaded))
            result.append(step)
    return result


def test_of_a_step_that_repeats_the_first_are_counted_and_then_ever_fewer() -> None:
    assert counted(BriefCounting(), range(40)) == [0, 1, 2, 4, 8, 16, 32]


def test_a_step_that_is_left_out_moves_what_the_last_counted_did() -> None:
    count = BriefCounting()
    counted(count, range(5))
    known = count.repeated(0, launch(5))
    assert known is not None
    assert known.requested_load_bytes == 100


def test_steps_that_grow_are_all_counted() -> None:
    count = BriefCounting()
    for step in range(20):
        assert count.repeated(0, launch(step)) is None
        count.count(0, launch(step), traffic(100 + 10 * step))


def test_another_size_is_another_launch() -> None:
    count = BriefCounting()
    counted(count, range(20))
    assert count.repeated(0, launch(20, length=65)) is None
    assert count.repeated(1, launch(20)) is None
    assert count.repeated(0, replace(launch(20), grid=(5, 1, 1))) is None
