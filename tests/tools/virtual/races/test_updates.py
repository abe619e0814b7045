"""Which atomics of one program may come in any order, and what is said of the others."""

from __future__ import annotations

import numpy as np
import pytest
from triton._C.libtriton import interpreter as native

from kernelagent.tools.virtual.compiled.barriers import Barriers
from kernelagent.tools.virtual.compiled.memory_operations import Threads
from kernelagent.tools.virtual.executor.launch import MemoryFault
from kernelagent.tools.virtual.operations.accesses import exchanged
from kernelagent.tools.virtual.races.overwrites import Overwrites
from kernelagent.tools.virtual.races.updates import swap_of, update_of

RMW = native.RMW_OP
FIRST, SECOND = 5, 6
ON = np.ones(4, dtype=bool)
NOWHERE = ~ON
ONES, COUNTED = np.ones(4, dtype=np.int32), np.arange(4, dtype=np.int32)
FLOATS = np.ones(4, dtype=np.float32)
RELAXED = Barriers(
    '.file 1 "candidate.py"\n.loc 1 5 1\natom.global.gpu.relaxed.add.u32 %r1, [%rd1], 1;\n'
    ".loc 1 6 1\natom.global.gpu.relaxed.add.u32 %r2, [%rd1], 1;\n"
)
SYNCHRONIZING = Barriers(
    '.file 1 "candidate.py"\n.loc 1 5 1\natom.global.gpu.acq_rel.add.u32 %r1, [%rd1], 1;\nbar.sync 0;\n'
    ".loc 1 6 1\nld.global.gpu.acquire.b32 %r2, [%rd1];\n"
)


def done(operation, values, *, dropped):
    return update_of(operation, values, ON, dropped=dropped)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (done(RMW.FADD, FLOATS, dropped=True), done(RMW.FADD, 2 * FLOATS, dropped=True)),
        (done(RMW.ADD, ONES, dropped=False), done(RMW.ADD, ONES, dropped=True)),
        (done(RMW.XCHG, ONES, dropped=False), done(RMW.XCHG, ONES, dropped=False)),
        (swap_of(0 * ONES, ONES), swap_of(0 * ONES, ONES)),
    ],
    ids=["sums nobody looks at", "tickets", "one mark", "one swap"],
)
def test_these_may_change_places(first, second):
    assert first.may_change_places_with(second)
    assert second.may_change_places_with(first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (done(RMW.FADD, FLOATS, dropped=True), done(RMW.FADD, FLOATS, dropped=False)),
        (done(RMW.ADD, ONES, dropped=False), done(RMW.ADD, 2 * ONES, dropped=False)),
        (done(RMW.ADD, COUNTED, dropped=False), done(RMW.ADD, COUNTED, dropped=False)),
        (done(RMW.ADD, ONES, dropped=True), done(RMW.MAX, ONES, dropped=True)),
        (done(RMW.XCHG, COUNTED, dropped=True), done(RMW.XCHG, COUNTED, dropped=True)),
        (done(exchanged, COUNTED, dropped=True), done(exchanged, COUNTED, dropped=True)),
        (swap_of(0 * ONES, COUNTED), swap_of(0 * ONES, COUNTED)),
    ],
    ids=["sums looked at", "other numbers", "a number each", "two operations", "exchanges", "of bf16", "swaps"],
)  # fmt: skip
def test_these_may_not(first, second):
    assert not first.may_change_places_with(second)
    assert not second.may_change_places_with(first)


def lanes(*places):
    return np.array([4096 + 4 * place for place in places], dtype=np.uint64)


@pytest.fixture
def seen():
    """Its lanes have added something each, and looked at what was there."""
    overwrites = Overwrites()
    overwrites.threads = Threads(barriers=RELAXED)
    keep(overwrites, ON)
    return overwrites


def keep(overwrites, changed):
    first = done(RMW.ADD, COUNTED, dropped=False)
    overwrites.keep("atomic", FIRST, lanes(0, 1, 2, 3), ON, 4, first, changed)


def adds(overwrites, places, changed):
    second = done(RMW.ADD, COUNTED, dropped=False)
    overwrites.updated(SECOND, lanes(*places), ON, 4, second, changed)


def test_an_atomic_on_what_other_threads_updated_needs_a_barrier_between(seen):
    adds(seen, (0, 1, 2, 3), ON)
    adds(seen, (4, 5, 6, 7), ON)
    with pytest.raises(MemoryFault, match="updates 4 elements that other threads") as raised:
        adds(seen, (3, 2, 1, 0), ON)
    assert raised.value.code == "data_race"
    seen.forget()
    adds(seen, (3, 2, 1, 0), ON)


@pytest.mark.parametrize(("before", "now", "fails"), [(NOWHERE, NOWHERE, False), (ON, NOWHERE, True), (NOWHERE, ON, True)])  # fmt: skip
def test_the_order_of_two_is_open_where_one_of_them_changes_anything(before, now, fails):
    overwrites = Overwrites()
    keep(overwrites, before)
    if not fails:
        adds(overwrites, (3, 2, 1, 0), now)
        return
    with pytest.raises(MemoryFault):
        adds(overwrites, (3, 2, 1, 0), now)


def test_the_barriers_around_atomics_that_acquire_order_them_though_one_is_made_a_load(seen):
    seen.threads = Threads(barriers=SYNCHRONIZING)
    adds(seen, (3, 2, 1, 0), ON)


def test_an_atomic_may_change_what_other_threads_load_behind_a_barrier_only():
    overwrites = Overwrites()
    overwrites.keep("load", FIRST, lanes(0, 1, 2, 3), ON, 4)
    adds(overwrites, (3, 2, 1, 0), NOWHERE)
    with pytest.raises(MemoryFault, match="other threads of the same program load"):
        adds(overwrites, (3, 2, 1, 0), ON)
