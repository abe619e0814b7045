"""What a brief count leaves out: launches that repeat."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import triton
import triton.language as tl

from kernelagent.models.compiler.templates.matmul.pricing import launch_traffic
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.cost.traffic import TrafficCounter
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


@triton.jit
def _product(a_ptr, b_ptr, out_ptr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    inner = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + rows * BLOCK + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * BLOCK + cols)
    product = tl.dot(a, b, tl.zeros((BLOCK, BLOCK), dtype=tl.float32), input_precision="ieee")
    tl.store(out_ptr + rows * BLOCK + cols, product + 1)


A, B = torch.ones(64, 16), torch.ones(16, 16)


def product(out: torch.Tensor) -> tuple[dict[str, torch.Tensor | int], Launch]:
    """Arguments and launch of four programs."""
    tensors = {"a_ptr": A, "b_ptr": B, "out_ptr": out}
    described = Launch(
        index=0,
        kernel="_product",
        line=1,
        grid=(4, 1, 1),
        tensors=tuple(tensor_argument(name, value) for name, value in tensors.items()),
        scalars={},
        constexprs={"BLOCK": 16},
    )
    return {**tensors, "BLOCK": 16}, described


@pytest.mark.parametrize("values", [True, False])
def test_a_product_that_is_only_counted_counts_alike_and_adds_nothing(values: bool) -> None:
    out = torch.zeros(64, 16)
    arguments, described = product(out)
    interpreter, counter = BatchedInterpreter(), TrafficCounter("sm_90")
    interpreter.multiply(values=values)
    interpreter.run(_product, arguments, described, observers=[counter])
    assert sum(counter.result(described).dot_flops.values()) == 2 * 64 * 16 * 16
    assert out.unique().tolist() == [17.0 if values else 1.0]


def test_where_time_is_up_no_more_have_run_than_were_tried_together_first() -> None:
    arguments, described = product(torch.zeros(64, 16))
    assert BatchedInterpreter().run(_product, arguments, described, enough_s=0.0) == 4
    assert (
        BatchedInterpreter().run(_product, arguments, described, enough_s=0.0, first_chunk=2) == 2
    )
