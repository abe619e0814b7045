"""A store over what other threads of its program loaded or stored before it."""

from __future__ import annotations

import numpy as np
import pytest

from kernelagent.tools.virtual.compiled.barriers import Barriers
from kernelagent.tools.virtual.compiled.memory_operations import Threads
from kernelagent.tools.virtual.executor.launch import MemoryFault
from kernelagent.tools.virtual.races.overwrites import Overwrites

LOADS, STORES = 5, 6
ALIKE, OTHERWISE = frozenset({"a layout"}), frozenset({"another"})
BARRIER_BETWEEN = Barriers(
    '.file 1 "candidate.py"\n.loc 1 5 1\nld.global.b32 {%r1}, [%rd1];\nbar.sync 0;\n'
    ".loc 1 6 1\nst.global.b32 [%rd1], {%r1};\n"
)


@pytest.fixture
def memory():
    return np.arange(8, dtype=np.int32)


@pytest.fixture
def seen(memory):
    """Its lanes have loaded the first four numbers."""
    overwrites = Overwrites()
    overwrites.keep("load", LOADS, lanes(memory, 0, 1, 2, 3), everywhere(4), 4)
    return overwrites


def lanes(memory, *places):
    return np.array([memory.ctypes.data + 4 * place for place in places], dtype=np.uint64)


def everywhere(count):
    return np.ones(count, dtype=bool)


def stores(overwrites, memory, places, values):
    overwrites.storing(
        STORES, lanes(memory, *places), everywhere(len(places)), np.array(values, np.int32)
    )


def test_lanes_may_change_what_they_loaded_themselves(seen, memory):
    stores(seen, memory, (0, 1, 2, 3), (9, 9, 9, 9))


def test_what_other_lanes_loaded_is_changed_behind_a_barrier_only(seen, memory):
    with pytest.raises(
        MemoryFault, match="overwrites 4 elements that other threads of the same program load"
    ):
        stores(seen, memory, (3, 2, 1, 0), (9, 9, 9, 9))
    seen.forget()
    stores(seen, memory, (3, 2, 1, 0), (9, 9, 9, 9))


def test_only_lanes_that_are_switched_on_and_store_something_else_change_anything(seen, memory):
    stores(seen, memory, (3, 2, 1, 0), (3, 2, 1, 0))
    stores(seen, memory, (4, 5, 6, 7), (9, 9, 9, 9))
    on = np.array([False, False, False, True])
    with pytest.raises(MemoryFault, match="overwrites 1 elements"):
        seen.storing(STORES, lanes(memory, 4, 5, 6, 0), on, np.full(4, 9, np.int32))
    seen.storing(STORES, lanes(memory, 2, 1, 0, 7), on, np.full(4, 9, np.int32))


def test_of_two_stores_of_different_threads_either_may_be_the_last(memory):
    overwrites = Overwrites()
    overwrites.keep("store", LOADS, lanes(memory, 0, 1), everywhere(2), 4)
    stores(overwrites, memory, (0, 1), (9, 9))
    with pytest.raises(MemoryFault, match="other threads of the same program store"):
        stores(overwrites, memory, (1, 0), (9, 9))


def test_one_number_that_all_threads_load_may_be_changed_by_the_one_that_stores_it(memory):
    overwrites = Overwrites()
    overwrites.keep("load", LOADS, lanes(memory, 0), everywhere(1), 4)
    stores(overwrites, memory, (0,), (9,))
    with pytest.raises(MemoryFault):
        stores(overwrites, memory, (1, 0), (1, 9))


@pytest.mark.parametrize(("barriers", "fails"), [(Barriers(), True), (BARRIER_BETWEEN, False)])
def test_a_lane_may_be_in_another_thread_where_it_stores(seen, memory, barriers, fails):
    ways = {("load", LOADS, (4,)): ALIKE, ("store", STORES, (4,)): OTHERWISE}
    seen.threads = Threads(ways=ways, barriers=barriers)
    if not fails:
        stores(seen, memory, (0, 1, 2, 3), (9, 9, 9, 9))
        return
    with pytest.raises(MemoryFault):
        stores(seen, memory, (0, 1, 2, 3), (9, 9, 9, 9))


def test_a_barrier_of_the_compilers_own_orders_them(seen, memory):
    seen.threads = Threads(barriers=BARRIER_BETWEEN)
    stores(seen, memory, (3, 2, 1, 0), (9, 9, 9, 9))
