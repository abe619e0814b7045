"""Stores through tensor descriptors, which are copies that go on beside the program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernelagent.tools.virtual.compiled.barriers import Barriers
from kernelagent.tools.virtual.compiled.memory_operations import MemoryOperation, Threads
from kernelagent.tools.virtual.executor.launch import MemoryFault, TensorArgument
from kernelagent.tools.virtual.races.bulk_stores import BulkStores
from kernelagent.tools.virtual.races.own_stores import OwnStores
from kernelagent.tools.virtual.races.pieces import Region
from kernelagent.tools.virtual.races.unreleased import Touched, Unreleased

COPIES, LATER = 5, 6
COPY = '.file 1 "candidate.py"\n.loc 1 5 1\ncp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1], [%r1];\n'
THEN = "bar.sync 0;\n.loc 1 6 1\n{} [%rd1], {{%r1}};\n"
AFTER = {"load": "ld.global.b32", "store": "st.global.b32", "atomic": "atom.global.gpu.relaxed.add.u32"}  # fmt: skip
GOES_ON = Barriers(COPY + "".join(THEN.format(code) for code in AFTER.values()))
ENDS = Barriers(
    COPY + "cp.async.bulk.wait_group 0;\n" + "".join(THEN.format(code) for code in AFTER.values())
)
ON = np.ones(4, dtype=bool)


@pytest.fixture
def memory():
    return np.arange(8, dtype=np.int32)


def lanes(memory, *places):
    return np.array([memory.ctypes.data + 4 * place for place in places], dtype=np.uint64)


def begun(memory, barriers):
    """It copies something to the first four places."""
    stores = BulkStores()
    stores.threads = Threads(in_bulk=frozenset({COPIES}), barriers=barriers)
    stores.wrote(COPIES, lanes(memory, 0, 1, 2, 3), ON, 4, in_bulk=True)
    return stores


@pytest.mark.parametrize("kind", ["load", "atomic"])
def test_what_is_copied_may_be_accessed_when_the_copy_has_ended(memory, kind):
    there, elsewhere = lanes(memory, 3, 2, 1, 0), lanes(memory, 4, 5, 6, 7)
    begun(memory, ENDS).accessed(kind, LATER, there, ON, 4)
    begun(memory, GOES_ON).accessed(kind, LATER, elsewhere, ON, 4)
    with pytest.raises(
        MemoryFault, match="4 elements that it stored through a tensor desc"
    ) as raised:
        begun(memory, GOES_ON).accessed(kind, LATER, there, ON, 4)
    assert raised.value.code == "data_race"


def test_a_store_over_a_copy_that_goes_on_must_change_nothing(memory):
    where = lanes(memory, 0, 1, 2, 3)
    begun(memory, GOES_ON).storing(LATER, where, ON, memory[:4], in_bulk=False)
    begun(memory, ENDS).storing(LATER, where, ON, memory[4:], in_bulk=False)
    with pytest.raises(MemoryFault, match="stores to 4 elements"):
        begun(memory, GOES_ON).storing(LATER, where, ON, memory[4:], in_bulk=False)


def test_no_copy_may_change_what_the_program_stored_by_pointers(memory):
    stores = BulkStores()
    stores.threads = Threads(in_bulk=frozenset({COPIES}), barriers=ENDS)
    where = lanes(memory, 0, 1, 2, 3)
    stores.wrote(LATER, where, ON, 4, in_bulk=False)
    stores.storing(COPIES, where, ON, memory[:4], in_bulk=True)
    with pytest.raises(MemoryFault, match="fence between the two proxies"):
        stores.storing(COPIES, where, ON, memory[4:], in_bulk=True)
    stores.program_begins()
    stores.storing(COPIES, where, ON, memory[4:], in_bulk=True)


def test_the_compiled_code_says_which_stores_are_copies():
    one = MemoryOperation("async_tma_copy_local_to_global", (COPIES,), "#loc1", (), "", ())
    assert Threads.of((one,), 1).in_bulk == {COPIES}
    assert Threads.of((replace(one, name="tt.store"),), 1).in_bulk == frozenset()


def test_all_threads_wait_for_what_a_descriptor_loads(memory):
    own = OwnStores()
    own.watched = True
    own.loaded(lanes(memory, 0, 1, 2, 3), ON, 4, copied=True)
    own.storing(lanes(memory, 3, 2, 1, 0), ON, memory[4:])
    own.loaded(lanes(memory, 0, 1, 2, 3), ON, 4)
    with pytest.raises(MemoryFault, match="overwrites"):
        own.storing(lanes(memory, 3, 2, 1, 0), ON, memory[4:])


@pytest.fixture
def region():
    argument = TensorArgument("out_ptr", 0, 0, 64, 4, "float32", (16,), (1,))
    return Region(0, 64, 4, argument)


@pytest.mark.parametrize(("barriers", "late"), [(ENDS, False), (GOES_ON, True)])
def test_an_atomic_releases_no_copy_that_goes_on(region, barriers, late):
    unreleased = Unreleased(barriers)
    pieces = np.array([2, 3])
    unreleased.keep(1, region, pieces, COPIES, in_bulk=True)
    unreleased.release(1, LATER)
    assert unreleased.among(1, region, pieces).all() == late
    assert unreleased.copies_under_way == late


def touched(kind, program, start, *, in_bulk=False):
    one = np.array([start])
    line = COPIES if kind == "store" else LATER
    return Touched(kind, np.array([program]), one, np.full(1, 4), 4, line=line, in_bulk=in_bulk)


@pytest.mark.parametrize(
    ("order", "late"),
    [
        ([touched("store", 1, 8), touched("atomic", 1, 0)], False),
        ([touched("atomic", 1, 0), touched("store", 1, 8)], True),
        ([touched("atomic", 2, 0), touched("store", 1, 8)], False),
        ([touched("store", 1, 8, in_bulk=True), touched("atomic", 1, 0)], True),
        ([touched("store", 1, 8)], False),
    ],
    ids=["before it releases", "after", "another releases", "a copy", "nobody releases"],
)
def test_of_programs_that_ran_together_it_is_known_what_they_released(region, order, late):
    unreleased = Unreleased(GOES_ON)
    unreleased.learn(order, [region], 2, 32)
    assert unreleased.among(1, region, np.array([2])).any() == late
