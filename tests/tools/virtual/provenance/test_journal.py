"""A value that a load may find early or late is no fault where nothing hangs on it."""

from __future__ import annotations

import numpy as np
import pytest
import triton.language as tl

from kernelagent.tools.virtual.executor.deadline import TimeIsUp
from kernelagent.tools.virtual.executor.launch import MemoryFault
from kernelagent.tools.virtual.interpreter.memory import Memory
from kernelagent.tools.virtual.provenance import journal as journals
from kernelagent.tools.virtual.provenance.journal import Journal

COUNT = 64
ON = np.ones(COUNT, dtype=bool)
NONE = np.zeros(COUNT, dtype=np.float32)


class Program:
    """Loads zeros while other lanes put numbers there, makes something of them, and counts how often it has run."""

    def __init__(self, made):
        self.made = made
        self.cache, self.out = np.zeros(COUNT, np.float32), np.zeros(COUNT, np.float32)
        self.runs = np.zeros(1, np.int32)
        self.memory = Memory()

    def at(self, array, order):
        return np.array([array.ctypes.data + array.itemsize * place for place in order], np.uint64)

    def __call__(self):
        memory, one = self.memory, np.ones(1, bool)
        before = memory.load(self.at(self.runs, [0]), one, self.runs * 0, np.dtype(np.int32))
        memory.store(self.at(self.runs, [0]), before + 1, one, tl.int32)
        held = memory.load(self.at(self.cache, range(COUNT)), ON, NONE, np.dtype(np.float32))
        fresh = np.arange(1, COUNT + 1, dtype=np.float32)
        memory.store(self.at(self.cache, reversed(range(COUNT))), fresh, ON, tl.float32)
        where, what = self.made(self, held)
        memory.store(where, what.astype(np.float32), ON, tl.float32)

    def judged(self):
        """As the interpreter does it."""
        memory, own = self.memory, self.memory.own
        own.watched = True
        memory.journal = own.overwrites.journal = Journal()
        self()
        own.watched = False
        memory.journal.require_unused(own.overwrites.doubts, self)


def dropped(program, held):
    return program.at(program.out, range(COUNT)), np.where(ON, 2.0, held)


def kept_in_one_lane(program, held):
    return program.at(program.out, range(COUNT)), np.where(np.arange(COUNT) < COUNT - 1, 2.0, held)


def whether_all_agree(program, held):
    late = np.count_nonzero(held)
    return program.at(program.out, range(COUNT)), np.full(COUNT, 0 < late < COUNT)


def as_addresses(program, held):
    return program.at(program.out, range(COUNT)) + (1 << 40) * held.astype(np.uint64), held * 0


def test_what_is_dropped_may_be_loaded_early_or_late():
    program = Program(dropped)
    program.judged()
    assert program.runs[0] == 1
    assert program.out.tolist() == [2.0] * COUNT
    assert program.cache.tolist() == [float(n) for n in range(COUNT, 0, -1)]


@pytest.mark.parametrize("made", [kept_in_one_lane, whether_all_agree, as_addresses])
def test_what_anything_hangs_on_needs_a_barrier(made):
    with pytest.raises(MemoryFault, match="overwrites 64 elements that other threads") as raised:
        Program(made).judged()
    assert raised.value.code == "data_race"


def test_a_program_that_changes_too_much_to_be_kept_is_not_run_again(monkeypatch):
    monkeypatch.setattr(journals, "_MOST_BYTES", 16)
    with pytest.raises(MemoryFault, match="overwrites 64 elements"):
        Program(dropped).judged()


def test_when_the_time_is_up_that_is_what_is_said():
    runs = []

    def made(program, held):
        runs.append(1)
        if len(runs) > 1:
            raise TimeIsUp("timeout", "late", {})
        return dropped(program, held)

    with pytest.raises(TimeIsUp):
        Program(made).judged()
