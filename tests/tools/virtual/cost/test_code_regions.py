"""What stands in the compiled code alone is charged: changes of layout, repeated lanes, waits for other programs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from benchmarks.counting import Counted, CountingLauncher
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.compiled.code_regions import Regions, regions_of
from kernelagent.tools.virtual.compiled.layout_bits import conversion, layout_bits
from kernelagent.tools.virtual.cost.bank_conflicts import BankConflicts
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.interpreter.interpreter import Interpreter
from tests.tools.virtual.cost import region_kernels as kernels

H200 = ceilings_for("sm_90")
_TURNS = 20
interpreter = cache(Interpreter)
together = cache(BatchedInterpreter)
both_ways = pytest.mark.parametrize("runs", [interpreter, together])
_ROWS = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
_COLUMNS = "#ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>"
_IN_WARPS = "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def launched(kernel, runs, programs=(2,), block=512, **others) -> Counted:
    launcher = CountingLauncher(runs(), "sm_90", None)
    x, out = torch.full((1024,), 3.5), torch.zeros(programs[0] * block)
    launcher(kernel, programs, x=x, out=out, BLOCK=block, **others)
    return launcher.counted[0]


@pytest.mark.long
@both_ways
def test_a_change_of_layout_costs_shared_memory_and_two_waits(runs):
    """512 floats go in and out at 128 bytes a clock: 32 clocks a turn and program."""
    some, none = (launched(kernels.transposes, runs, turns=t).traffic for t in (_TURNS, 0))
    assert some.shared_clocks - none.shared_clocks == 2 * 32 * _TURNS
    assert some.exchanges - none.exchanges == 2 * 2 * _TURNS
    assert some.most_shared_clocks - none.most_shared_clocks == 32 * _TURNS


@both_ways
def test_what_stands_behind_an_if_is_charged_as_often_as_it_is_done(runs):
    always, rarely = (
        launched(kernel, runs, turns=_TURNS).traffic.shared_clocks
        for kernel in (kernels.transposes, kernels.rarely_transposes)
    )
    assert rarely <= always / 10 * 2


@both_ways
def test_numbers_of_rows_are_computed_by_all_lanes_that_hold_them(runs):
    """64 rows of 16, four lanes to a row: each thread has its share of two rows, and the sums of both."""
    item = launched(kernels.of_rows, runs, block=1024, turns=_TURNS).traffic
    assert item.issued_special == 2 * 2 * 128 * _TURNS
    assert item.issued_special > item.special_operations + item.special_slots


@both_ways
def test_numbers_that_each_lane_has_alone_are_counted_once(runs):
    item = launched(kernels.of_elements, runs, turns=_TURNS).traffic
    assert item.issued_special == item.special_operations == 2 * 512 * _TURNS


@pytest.mark.parametrize("rounds", [2, 4])
def test_an_unrolled_loop_costs_what_its_rounds_do(rounds):
    """With rounds left over, and without."""
    plain, unrolled = (
        launched(kernels.unrolled, together, turns=_TURNS + 1, ROUNDS=r).traffic
        for r in (1, rounds)
    )
    assert unrolled.issued_special == plain.issued_special == 2 * 512 * (_TURNS + 1)
    assert unrolled.issued_fp == plain.issued_fp


@pytest.mark.parametrize(("turns", "rounds"), [(20, 2), (20, 4), (6, 8), (31, 32)])
def test_constant_rounds_are_unrolled_where_there_are_enough_of_them(turns, rounds):
    """Of fewer than are asked for at a time the compiler makes the usual loop."""
    known = launched(kernels.unrolled_by_constants, together, TURNS=turns, ROUNDS=rounds).traffic
    assert known.issued_special == 2 * 512 * turns


def test_two_loops_that_only_look_like_an_unrolled_one_cost_what_both_do():
    item = launched(kernels.as_if_unrolled, together, turns=_TURNS).traffic
    assert item.issued_special == 2 * 512 * 2 * _TURNS


def test_what_a_call_that_is_never_made_asks_for_makes_no_loop_cheaper():
    item = launched(kernels.unrolled_in_two_ways, together, turns=_TURNS).traffic
    assert item.issued_special == 2 * 512 * 2 * _TURNS


@pytest.mark.long
@both_ways
def test_lanes_that_want_one_bank_wait_for_each_other(runs):
    clocks = {
        step: launched(kernels.gathers, runs, turns=_TURNS, STEP=step).traffic.shared_clocks
        for step in (1, 32)
    }
    assert clocks[32] > 2 * clocks[1] > 0


def test_conflicts_are_those_of_the_kindest_way_to_spread_the_lanes():
    def clocks(step: int) -> float:
        indices = (np.arange(512) * step % 512)[None]
        return BankConflicts().clocks(indices, (512,), 0, 4)

    assert clocks(1) == 0
    assert clocks(32) >= 16 * 3


@pytest.mark.long
@both_ways
def test_loads_that_never_run_do_not_hide_those_that_do(runs):
    alone, diluted = (
        launched(kernels.loads_single_numbers, runs, turns=400, never=0, DEAD=dead)
        for dead in (1, 60)
    )
    assert diluted.traffic.loading_rounds == 2 * 400
    assert diluted.estimate.us > 0.9 * (H200.launch_us + 400 / 16 * H200.program_us)
    assert diluted.estimate.us <= alone.estimate.us


@both_ways
def test_a_way_through_memory_and_back_takes_as_long_as_a_trip_to_it(runs):
    item = launched(kernels.through_memory, runs, turns=_TURNS).traffic
    assert item.longest_chain_clocks >= 200 * _TURNS


@pytest.mark.long
@pytest.mark.parametrize("kernel", [kernels.locked, kernels.in_line_by_stores])
def test_programs_that_wait_for_each_other_run_one_after_another(kernel):
    """Each takes a trip to memory to see that it may go on, and one for its own loads."""
    flag = torch.zeros(1, dtype=torch.int32)
    item = launched(kernel, together, programs=(30,), block=128, flag=flag)
    assert item.traffic.longest_chain_clocks >= 29 * 2 * 200
    assert item.estimate.us > H200.launch_us + 1e6 * 29 * 400 / H200.clock_hz - H200.program_us


@pytest.mark.long
def test_programs_that_count_themselves_do_not_wait():
    flag = torch.zeros(1, dtype=torch.int32)
    item = launched(kernels.counted, together, programs=(30,), block=128, flag=flag)
    assert item.traffic.longest_chain_clocks < 3 * 200


@both_ways
def test_a_loop_whose_rounds_are_as_many_as_values_say_is_noticed(runs):
    assert launched(kernels.by_values, runs, turns=1).traffic.loops_by_values == 2
    assert launched(kernels.of_elements, runs, turns=1).traffic.loops_by_values == 0


def test_a_layout_is_changed_for_nothing_within_threads_and_by_shuffles_within_warps():
    shape = (16, 32)
    rows, columns, in_warps = (
        layout_bits(text, shape, {}, 4) for text in (_ROWS, _COLUMNS, _IN_WARPS)
    )
    assert conversion(rows, rows, shape, 4).clocks == 0
    shuffled = conversion(rows, in_warps, shape, 4)
    assert not shuffled.through_shared
    assert shuffled.clocks == 512 / 32
    assert conversion(rows, columns, shape, 4).through_shared
    assert conversion(None, columns, shape, 4).clocks == 0


def test_a_slice_is_held_by_every_lane_along_the_axis_that_is_gone():
    sliced = layout_bits(f"#ttg.slice<{{dim = 1, parent = {_ROWS}}}>", (16,), {}, 4)
    assert sliced is not None
    assert sliced.held == 8 * 16


def test_of_specialised_warps_nothing_is_known():
    assert regions_of('"ttg.num-warps" = 4 : i32\nttg.warp_specialize', "x.py") == Regions()


_LOOPS = """
#loc1 = loc("k.py":5:1)
#loc2 = loc("k.py":7:1)
"ttg.num-warps" = 4 : i32
  tt.func public @k() {
    scf.while () : () -> () {
      scf.condition(%c)
    } do {
      %a = math.exp %b : tensor<128xf32, #b> loc(#loc1)
    } loc(#loc1)
    scf.if %c {
      %a = math.exp %b : tensor<128xf32, #b> loc(#loc2)
    } else {
      %a = math.exp %b : tensor<256xf32, #b> loc(#loc2)
    } loc(#loc2)
  } loc(#loc1)
"""


def test_rounds_of_a_while_and_both_sides_of_an_if_are_regions_of_their_own():
    found = regions_of(_LOOPS, "k.py")
    assert found.at(5, 5, "loop") == {"issued_special": 128}
    assert found.at(6, 7, "then") == {"issued_special": 128}
    assert found.at(7, 7, "else") == {"issued_special": 256}
    assert not found.outside
