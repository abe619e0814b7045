"""Loads of a pipelined loop come before the stores of the rounds before."""

from __future__ import annotations

import numpy as np
import pytest

from kernelagent.tools.virtual.compiled.fetched_ahead import Loop, ahead_of, loops_of
from kernelagent.tools.virtual.executor.launch import MemoryFault
from kernelagent.tools.virtual.races import own_stores
from kernelagent.tools.virtual.races.own_stores import OwnStores

SOURCE = """\
def steps(x, h):
    for step in range(3):
        for part in range(4):
            a = load(x)
        tl.store(h, a)
    while True:
        b = load(h)
        tl.store(h, b)
"""
WHERE = np.array([0, 4, 8, 12], dtype=np.uint64)
ALL = np.ones(4, dtype=bool)


def test_a_load_belongs_to_the_loop_that_moves_it():
    loops = loops_of(SOURCE)
    assert Loop(range(3, 5)) in loops
    inner, outer, last = ((4,), 3), ((4,), 2), ((7,), 6)
    assert ahead_of(frozenset({inner, last}), loops) == {4: (range(3, 5),), 7: (range(6, 9),)}
    assert ahead_of(frozenset({outer}), loops) == {4: (range(2, 6),)}


def test_a_load_of_a_helper_belongs_to_the_loop_around_its_call():
    loops = loops_of(SOURCE)
    assert ahead_of(frozenset({((99, 7), 1), ((98,), 1)}), loops) == {99: (range(6, 9),)}


@pytest.fixture
def at_line(monkeypatch):
    """Says in which line of the candidate's an access is, and in which its function is called."""

    def at(*lines):
        monkeypatch.setattr(own_stores, "line_now", lambda: lines[0])
        monkeypatch.setattr(own_stores, "lines_now", lambda: iter(lines))

    return at


@pytest.fixture
def own():
    stores = OwnStores()
    stores.watched, stores.ahead = True, {7: (range(6, 9),), 99: (range(6, 9),)}
    return stores


def test_what_its_loop_stored_is_fetched_too_early_whatever_barriers_there_are(own, at_line):
    at_line(8)
    own.stored(WHERE, ALL, 4)
    own.barrier()
    at_line(7)
    with pytest.raises(MemoryFault, match="4 elements that it stored itself in an earlier round"):
        own.loaded(WHERE, ALL, 4)
    own.loaded(WHERE + np.uint64(64), ALL, 4)
    at_line(4)
    own.loaded(WHERE, ALL, 4)


def test_what_was_stored_before_the_loop_or_by_another_program_is_there(own, at_line):
    at_line(2)
    own.stored(WHERE, ALL, 4)
    own.barrier()
    at_line(7)
    own.loaded(WHERE, ALL, 4)
    at_line(8)
    own.stored(WHERE, ALL, 4)
    own.program_begins()
    at_line(7)
    own.loaded(WHERE, ALL, 4)


def test_helpers_that_load_and_store_do_so_in_the_loop_that_calls_them(own, at_line):
    at_line(90, 8)
    own.updated(WHERE, ALL, 4)
    own.barrier()
    at_line(99, 7)
    with pytest.raises(MemoryFault, match="in an earlier round"):
        own.loaded(WHERE, ALL, 4)
    at_line(99, 4)
    own.loaded(WHERE, ALL, 4)


def test_one_number_that_an_atomic_changes_is_changed_too_late_as_well(own, at_line):
    at_line(8)
    own.updated(WHERE[:1], ALL[:1], 4)
    at_line(7)
    with pytest.raises(MemoryFault, match="in an earlier round"):
        own.loaded(WHERE, ALL, 4)
