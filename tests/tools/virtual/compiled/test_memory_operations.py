"""What the compiled code says of loads and stores: where they stand, in which loops, and which threads have their lanes."""

from __future__ import annotations

import pytest

from kernelagent.tools.virtual.compiled.memory_operations import (
    Threads,
    memory_operations,
    one_thread_each,
)

LAYOUTS = """\
#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#narrow = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#flat = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#loc = loc("candidate.py":5:1)
#loc3 = loc("candidate.py":9:5)
#loc10 = loc("candidate.py":11:13)
#loc12 = loc("candidate.py":14:13)
#loc14 = loc("/site-packages/triton/language/standard.py":14:13)
#loc20 = loc("t"(#loc3))
#loc28 = loc("a"(#loc10))
#loc29 = loc(callsite(#loc12 at #loc28))
"""
COPY = (
    "%a = ttg.async_copy_global_to_local %1, %2 mask %3 : tensor<512x!tt.ptr<f32>, #blocked> "
    "-> <512xf32, #shared> loc(#loc29)"
)
STORE = "tt.store %9, %t : tensor<512x!tt.ptr<f32>, #blocked> loc(#loc28)"


def loop(*inside):
    return "\n".join(
        (
            LAYOUTS,
            COPY,
            "%r:2 = scf.for %s = %c0 to %n step %c1 iter_args(%t = %x) -> (i32)  : i32 {",
            *inside,
            "scf.yield %t : i32 loc(#loc20)",
            "} {tt.num_stages = 3 : i32} loc(#loc20)",
        )
    )


def test_operations_stand_where_they_and_the_calls_that_lead_to_them_stand():
    (load, store), loops = (found := memory_operations(loop(STORE))).every, found.loops
    assert (load.kind, load.lines, load.loops) == ("load", (14, 11), ())
    assert (store.kind, store.lines, store.shape) == ("store", (11,), (512,))
    assert [loops[number] for number in store.loops] == [(9,)]


def test_lines_of_tritons_own_functions_are_none_of_the_candidates():
    text = f"{LAYOUTS}\n%x = tt.load %p : !tt.ptr<f32> loc(#loc14)"
    assert memory_operations(text).every[0].lines == ()


@pytest.mark.parametrize(
    "store",
    [
        STORE,
        "%4 = tt.atomic_rmw fadd, acq_rel, gpu, %1, %2, %3 : (tensor<512x!tt.ptr<f32>, #blocked>, "
        "tensor<512xf32, #blocked>, tensor<512xi1, #blocked>) -> tensor<512xf32, #blocked> loc(#loc28)",
        "ttng.async_tma_copy_local_to_global %d[%i] %a : !tt.tensordesc<64xf32> loc(#loc28)",
        "tt.call @put(%p, %v) : (!tt.ptr<f32>, f32) -> () loc(#loc28)",
        f"scf.if %c {{\n{STORE}\n}} loc(#loc28)",
    ],
)
def test_an_asynchronous_copy_is_fetched_ahead_of_whatever_its_loop_stores(store):
    assert memory_operations(loop(COPY, store)).fetched_ahead() == {((14, 11), 9)}


def test_where_the_loop_stores_nothing_no_load_is_looked_at():
    assert memory_operations(loop(COPY) + "\n" + STORE).fetched_ahead() == frozenset()


def test_a_load_that_stands_before_its_loop_as_well_is_fetched_ahead():
    load = "%a = tt.load %1 : tensor<512x!tt.ptr<f32>, #blocked> loc(#loc28)"
    moved = loop(load, STORE).replace(COPY, load)
    assert memory_operations(moved).fetched_ahead() == {((11,), 9)}
    assert memory_operations(loop(load, STORE)).fetched_ahead() == frozenset()


@pytest.mark.parametrize(
    ("layout", "shape", "alone"),
    [
        ("#blocked", (512,), True),
        ("#blocked", (256,), False),
        ("#narrow", (256,), True),
        ("#narrow", (64,), False),
        ("#flat", (16, 32), True),
        ("#flat", (8, 64), False),
        ("#ttg.slice<{dim = 1, parent = #flat}>", (16,), False),
        ("#ttg.linear<{register = [[4]], lane = [[1], [2]], warp = [[8]], block = []}>", (16,), True),
        ("#ttg.linear<{register = [[4]], lane = [[1], [0]], warp = [[8]], block = []}>", (16,), False),
    ],
)  # fmt: skip
def test_a_lane_is_in_one_thread_where_there_are_as_many_lanes_as_threads(layout, shape, alone):
    sizes = "x".join(str(n) for n in shape)
    text = f"{LAYOUTS}\n%x = tt.load %p : tensor<{sizes}x!tt.ptr<f32>, {layout}> loc(#loc)"
    (load,) = memory_operations(text).every
    assert load.shape == shape
    assert one_thread_each(load.shape, load.layout) is alone
    known = Threads.of([load], 1).spread("load", 5, shape)
    assert known == (load.layout if alone else None)


def test_a_number_is_stored_by_one_thread_and_loaded_by_all():
    text = (
        f"{LAYOUTS}\n%x = tt.load %p : !tt.ptr<f32> loc(#loc)\n"
        "tt.store %p, %x : !tt.ptr<f32> loc(#loc)"
    )
    threads = Threads.of(memory_operations(text).every, 1)
    assert threads.spread("load", 5, ()) is None
    assert threads.spread("store", 5, ()) is not None
    assert threads.spread("store", 5, (1,)) is not None


def test_a_line_whose_accesses_are_spread_in_two_ways_is_not_plain():
    loads = "\n".join(
        f"%x = tt.load %p : tensor<512x!tt.ptr<f32>, {one}> loc(#loc)"
        for one in ("#blocked", "#narrow")
    )
    assert Threads.of(memory_operations(LAYOUTS + loads).every, 1).layouts == {}


def test_a_barrier_keeps_one_block_of_a_cluster():
    assert Threads.of((), 1).barriers_for_all
    assert not Threads.of((), 2).barriers_for_all
