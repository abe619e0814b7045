"""What a program waits for in turn is charged as the machine code has it: trips to memory, exchanges, atomics."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from benchmarks.counting import Counted, CountingLauncher
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.compiled.load_waits import LoadWaits
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.cost.combining import combining_clocks
from kernelagent.tools.virtual.cost.cost import estimate_launch
from kernelagent.tools.virtual.cost.waiting import DRAM_CLOCKS, L2_CLOCKS, waiting_clocks
from kernelagent.tools.virtual.interpreter.interpreter import Interpreter
from tests.tools.virtual.cost import waiting_kernels as kernels

H200 = ceilings_for("sm_90")
_ROWS = 64
interpreter = cache(Interpreter)
together = cache(BatchedInterpreter)
both_ways = pytest.mark.parametrize("runs", [interpreter, together])


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def counted(kernel, runs=together, programs=1, warps=1, block=32, **others) -> Counted:
    arguments = {"x": torch.ones(_ROWS * block), "out": torch.zeros(_ROWS * block), "rows": _ROWS}
    arguments = {n: v for n, v in (arguments | others).items() if v is not None}
    launcher = CountingLauncher(runs(), "sm_90", None)
    launcher(kernel, (programs,), num_warps=warps, BLOCK=block, **arguments)
    return launcher.counted[0]


def trips(item: Counted) -> float:
    """To DRAM, of one program."""
    return waiting_clocks(item.traffic, item.machine)[1] / DRAM_CLOCKS


@pytest.mark.long
@both_ways
def test_a_loop_that_stores_before_it_loads_again_makes_a_trip_in_every_round(runs):
    assert trips(counted(kernels.stores_before_it_loads, runs)) == _ROWS


@pytest.mark.long
def test_so_does_one_that_python_unrolled():
    assert trips(counted(kernels.stores_before_it_loads_unrolled)) == _ROWS


@both_ways
def test_a_loop_that_stores_at_its_end_loads_as_far_ahead_as_ptxas_unrolled_it(runs):
    assert trips(counted(kernels.stores_at_the_end, runs)) <= _ROWS / 4


@pytest.mark.long
def test_one_load_is_one_trip_which_every_launch_has():
    item = counted(kernels.loads_once)
    assert trips(item) == 1
    free = replace(item.machine, load_waits=())
    assert item.estimate == estimate_launch(item.traffic, free, H200)


@pytest.mark.long
def test_a_wide_load_outside_does_not_make_a_loop_wait_less():
    """Four narrow loads are waited for together, however many bytes stand beside them."""
    item = counted(kernels.narrow_rounds_beside_a_wide_load)
    assert trips(item) >= _ROWS / 4 / 2
    plain = counted(kernels.stores_at_the_end)
    assert trips(item) == pytest.approx(trips(plain), rel=0.5)


@pytest.mark.long
def test_threads_that_ask_for_the_same_do_not_wait_less():
    few, many = (counted(kernels.stores_before_it_loads, warps=warps, block=32) for warps in (1, 4))
    assert trips(few) == trips(many) == _ROWS


def test_what_l1_and_l2_hold_is_waited_for_less_long():
    item = counted(kernels.stores_before_it_loads)
    in_l2 = replace(item.traffic, dram_load_bytes=0)
    in_l1 = replace(in_l2, l1_bytes=in_l2.load_sector_bytes)
    dram, l2, l1 = (waiting_clocks(t, item.machine)[1] for t in (item.traffic, in_l2, in_l1))
    assert (dram, l2) == (_ROWS * DRAM_CLOCKS, _ROWS * L2_CLOCKS)
    assert l1 < l2 / 4


def test_lines_that_a_load_may_both_be_of_count_together():
    item = counted(kernels.stores_before_it_loads)
    line = next(iter(item.traffic.asked_bytes))
    waits = tuple(
        LoadWaits(
            *({f"{line},9999": n for n in part.values()} for part in (w.bits, w.loads, w.waits))
        )
        for w in item.machine.load_waits
    )
    machine = replace(item.machine, load_waits=waits)
    assert waiting_clocks(item.traffic, machine) == waiting_clocks(item.traffic, item.machine)


@both_ways
@pytest.mark.parametrize("kernel", [kernels.sums_in_turn, kernels.running_sums_in_turn])
def test_sums_over_warps_take_shuffles_and_trips_through_shared_memory(runs, kernel):
    """512 numbers in 16 warps: five shuffles of 24 clocks, and what the warps exchange."""
    clocks = counted(kernel, runs, warps=16, block=512).traffic.most_combining_clocks
    assert clocks >= _ROWS * 200


@pytest.mark.long
@both_ways
def test_sums_within_a_warp_pass_no_barrier(runs):
    traffic = counted(kernels.sums_in_turn, runs, warps=1, block=32).traffic
    assert traffic.most_combining_clocks == 0


def test_what_is_combined_takes_longer_the_more_lanes_and_warps_have_it():
    sizes = [(0, 0, 0), (4, 0, 0), (4, 5, 0), (4, 5, 2), (4, 5, 4)]
    for what in ("reduce", "scan"):
        clocks = [combining_clocks(what, *size) for size in sizes]
        assert clocks == sorted(set(clocks))
    assert combining_clocks("reduce", 0, 5, 3, in_one=True) < combining_clocks("reduce", 0, 5, 3)


@both_ways
def test_lanes_of_a_warp_that_update_one_place_are_served_one_by_one(runs):
    """4096 lanes on eight numbers: 512 of each; 128 requests to each of two sectors of a program."""
    places = torch.arange(4096) % 8
    item = counted(
        kernels.counts, runs, 4, 4, 1024, x=places, out=torch.zeros(8, dtype=torch.int64), rows=None
    )
    assert item.traffic.hottest_updates == 512
    assert item.traffic.hottest_atomics == 16
    assert item.traffic.hottest_requests == 4 * 512 // 32
    assert item.machine.combined_atomics == 0
    assert item.estimate.parts_us["atomics"] == pytest.approx(0.512)


@pytest.mark.long
def test_integers_that_all_lanes_add_to_one_place_are_one_atomic_of_a_warp():
    item = counted(
        kernels.counts_all,
        together,
        4,
        4,
        1024,
        x=torch.ones(4096, dtype=torch.int32),
        out=torch.zeros(1, dtype=torch.int32),
        rows=None,
    )
    assert item.machine.combined_atomics == item.machine.atomics > 0
    assert item.estimate.parts_us["atomics"] == pytest.approx(0.128)


@pytest.mark.long
def test_floats_that_all_lanes_add_to_one_place_are_not():
    item = counted(
        kernels.counts_all, together, 4, 4, 1024, x=torch.ones(4096), out=torch.zeros(1), rows=None
    )
    assert item.machine.combined_atomics == 0
    assert item.estimate.parts_us["atomics"] == pytest.approx(4.096)


@both_ways
def test_which_lanes_are_on_is_counted_by_line(runs):
    traffic = counted(kernels.narrow_rounds_beside_a_wide_load, runs).traffic
    wide, narrow = sorted(traffic.share_on.values())
    assert (wide, narrow) == pytest.approx((1 / 32, 20 / 32), abs=1e-4)
    assert set(traffic.share_met.values()) == {1.0}
    assert traffic.share_on.keys() == traffic.asked_bytes.keys()


@pytest.mark.long
@both_ways
def test_what_a_program_loads_again_is_taken_for_held_by_l1(runs):
    item = counted(kernels.reads_twice, runs, programs=2)
    assert item.traffic.share_first == pytest.approx(0.5)
    once = counted(kernels.stores_at_the_end, runs)
    assert once.traffic.share_first == 1.0
    elsewhere = replace(item.traffic, share_first=1.0, l1_bytes=0)
    ours, theirs = (waiting_clocks(t, item.machine)[0] for t in (item.traffic, elsewhere))
    assert ours < 0.7 * theirs
