"""What a program does one after another takes time: atomics, loads, divisions that each need the last one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from benchmarks.counting import Counted, CountingLauncher
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.cost.cost import estimate_launch
from kernelagent.tools.virtual.interpreter.interpreter import Interpreter
from tests.tools.virtual.cost import chain_kernels as kernels

H200 = ceilings_for("sm_90")
_STEPS = 400
_US = 1e6 / H200.clock_hz
"""Microseconds of a clock."""

interpreter = cache(Interpreter)
together = cache(BatchedInterpreter)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def counted(kernel, programs=(4,), *, runs=interpreter, **arguments) -> Counted:
    if not arguments.keys() & {"x", "a"}:
        ring = (torch.arange(1 << 16, dtype=torch.int32) * 5 + 7) % 4096
        arguments = {"ring": ring, "out": torch.zeros(1 << 16, dtype=torch.int32), **arguments}
    launcher = CountingLauncher(runs(), "sm_90", None)
    launcher(kernel, programs, **arguments)
    return launcher.counted[0]


def without_chains(item: Counted) -> float:
    """What is left of the estimate where nothing waits for what was done before."""
    free = replace(item.traffic, chain_clocks=0, longest_chain_clocks=0)
    return estimate_launch(free, item.machine, H200).us


@pytest.mark.long
@pytest.mark.parametrize("runs", [interpreter, together])
def test_atomics_whose_values_are_used_make_a_trip_to_l2_each(runs):
    """400 trips of 200 clocks at 1.98 GHz: 40 us."""
    item = counted(kernels.chase_by_atomics, runs=runs, steps=_STEPS)
    assert item.estimate.us > 200 * _STEPS * _US > 5 * (without_chains(item) - H200.launch_us)


@pytest.mark.long
def test_atomics_whose_values_nobody_needs_are_not_waited_for():
    item = counted(kernels.count_by_atomics, steps=_STEPS)
    assert item.traffic.longest_chain_clocks < 100
    assert item.estimate.us < H200.launch_us + 5


@pytest.mark.long
def test_atomics_of_many_warps_to_one_place_queue_there():
    """100 turns of 4 programs with 1024 lanes: 32 warps each, 12800 atomics on one address."""
    item = counted(kernels.same_place_for_all_lanes, steps=100, BLOCK=1024)
    assert item.traffic.hottest_atomics == 4 * 100 * 32
    few = counted(kernels.same_place_for_all_lanes, steps=100, BLOCK=32)
    assert few.traffic.hottest_atomics == 4 * 100


@pytest.mark.long
@pytest.mark.parametrize("kernel", [kernels.chase_beside_a_copy, kernels.rows_beside_a_copy])
def test_one_bulk_copy_hides_no_other_wait(kernel):
    """Without the copy each of 400 turns waits for memory: 0.7 us, and 200 clocks at the very least."""
    sizes = {"BLOCK": 128} if kernel is kernels.rows_beside_a_copy else {}
    plain = counted(kernel, (1,), steps=_STEPS, COPIES=False, **sizes)
    copying = counted(kernel, (1,), steps=_STEPS, COPIES=True, **sizes)
    assert copying.machine.bulk_copies
    assert copying.traffic.copies == 1
    assert plain.estimate.us > 200 * _STEPS * _US / 4
    assert copying.estimate.us > 0.5 * plain.estimate.us


@pytest.mark.parametrize("runs", [interpreter, together])
def test_divisions_that_each_need_the_last_one_take_their_time(runs):
    """400 remainders of over 15 instructions, each of which needs the one before: 60 clocks, so 12 us."""
    item = counted(kernels.divide_in_turn, (1,), runs=runs, steps=_STEPS, BLOCK=128)
    assert item.estimate.us > H200.launch_us + 60 * _STEPS * _US
    uncounted = replace(
        item,
        traffic=replace(
            item.traffic, int_operations=item.traffic.int_operations - 21 * 128 * _STEPS
        ),
    )
    assert 3 * (without_chains(uncounted) - H200.launch_us) < 60 * _STEPS * _US


@pytest.mark.long
def test_divisions_of_32_bits_are_counted_as_the_instructions_they_are():
    """21 instructions of 4224 programs with 128 lanes, 400 times, at 64 a clock and multiprocessor: 260 us."""
    item = counted(kernels.divide_side_by_side, (16,), steps=_STEPS, BLOCK=128)
    many = replace(
        item.traffic,
        programs=4224,
        int_operations=264 * item.traffic.int_operations,
        lanes=264 * item.traffic.lanes,
    )
    least = 21 * 4224 * 128 * _STEPS / (64 * H200.sms) * _US
    assert estimate_launch(many, item.machine, H200).us > least > 250


@pytest.mark.long
@pytest.mark.parametrize("runs", [interpreter, together])
def test_the_longest_program_counts_where_programs_differ(runs):
    item = counted(kernels.divide_where_programs_differ, (8,), runs=runs, steps=50, BLOCK=32)
    longest, mean = item.traffic.longest_chain_clocks, item.traffic.chain_clocks / 8
    assert longest == pytest.approx(8 * 50 * 62, rel=0.05)
    assert mean == pytest.approx(longest * 4.5 / 8, rel=0.05)


@pytest.mark.long
def test_places_computed_by_division_cost_an_honest_kernel_nothing():
    x = torch.zeros(1 << 20)
    plain, dividing = (
        counted(kernels.by_places, (1024,), runs=together, x=x, out=torch.empty_like(x), n=x.numel(), columns=1000,
                BLOCK=1024, DIVIDES=divides).estimate
        for divides in (False, True)
    )  # fmt: skip
    assert dividing.us == pytest.approx(plain.us, rel=0.02)


@pytest.mark.long
@pytest.mark.parametrize("split", [False, True])
def test_an_honest_product_by_bulk_copies_waits_for_no_chain(split):
    a, b = (
        torch.zeros(512, 1024, dtype=torch.bfloat16),
        torch.zeros(1024, 512, dtype=torch.bfloat16),
    )
    sizes = {"DEPTH": 256 if split else 1024, "M": 128, "N": 128, "K": 64, "SPLIT": split}
    grid = (16, 4 if split else 1)
    item = counted(kernels.product, grid, num_warps=8, a=a, b=b, out=torch.zeros(512, 512), **sizes)
    assert item.machine.bulk_copies
    assert item.traffic.copies == item.traffic.loads == 2 * 16 * 16
    estimate = estimate_launch(item.traffic, item.machine, H200, 3)
    assert estimate.us == pytest.approx(without_chains(item), rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize("runs", [interpreter, together])
def test_one_heavy_program_among_idle_ones_is_waited_for(runs):
    """400 turns of one load, eight of them unrolled at most: 50 trips to memory, each of 0.7 us."""
    item = counted(kernels.one_walks_all, (64,), runs=runs, steps=_STEPS, BLOCK=128)
    assert item.traffic.most_loads == item.traffic.most_rounds == _STEPS
    assert item.estimate.us > H200.launch_us + _STEPS / 8 * H200.program_us / 2
    uncounted = replace(
        item.traffic, most_loads=0, most_rounds=0, most_loading_rounds=0, most_asked_bytes={}
    )
    assert estimate_launch(uncounted, item.machine, H200).us < item.estimate.us / 2


@pytest.mark.long
def test_conversions_to_integers_and_back_take_the_special_units():
    """To or from 64 bits 16 a clock and multiprocessor, as special functions; of 32 bits four times as many."""
    x = torch.ones(1 << 16)
    arguments = {"x": x, "out": torch.empty_like(x), "n": x.numel(), "columns": 3, "BLOCK": 1024}
    found = {
        what: counted(kernels.element, (64,), runs=together, WHAT=what, **arguments)
        for what in ("int64", "int32", "bf16")
    }
    slots = {what: item.traffic.special_slots for what, item in found.items()}
    both_ways = 2 * 8 * x.numel()
    assert slots == {"int64": both_ways, "int32": both_ways // 4, "bf16": 0}


@pytest.mark.long
def test_sines_and_quotients_take_longer_than_products():
    """Of 16 special functions a clock and multiprocessor: a sine takes the time of four, a quotient of one."""
    x = torch.ones(1 << 16)
    arguments = {"x": x, "out": torch.empty_like(x), "n": x.numel(), "columns": 3, "BLOCK": 1024}
    found = {
        what: counted(kernels.element, (64,), runs=together, WHAT=what, **arguments)
        for what in ("exp", "sin", "divide", "plain")
    }
    turns = {
        what: item.traffic.special_operations + item.traffic.special_slots
        for what, item in found.items()
    }
    one_each = 8 * x.numel()
    assert turns == {"exp": one_each, "sin": 4 * one_each, "divide": one_each, "plain": 0}
    special = found["divide"].estimate.parts_us["special"]
    assert special == pytest.approx(one_each / (16 * 64) * _US)
