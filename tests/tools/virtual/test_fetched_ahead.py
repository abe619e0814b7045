"""Loads of a pipelined loop come before the stores of the rounds before."""

from __future__ import annotations

import numpy as np
import pytest

from kernelagent.tools.virtual import own_stores
from kernelagent.tools.virtual.fetched_ahead import Loop, ahead_of, lines_fetched_ahead, loops_of
from kernelagent.tools.virtual.launch import MemoryFault
from kernelagent.tools.virtual.own_stores import OwnStores

TTGIR = """\
#loc = loc("candidate.py":5:1)
#loc10 = loc("candidate.py":11:13)
#loc12 = loc("candidate.py":14:13)
#loc28 = loc("a"(#loc10))
#loc29 = loc(callsite(#loc12 at #loc))
    %b = tt.load %p : tensor<64x64x!tt.ptr<f16>, #blocked> loc(#loc)
    %a_12 = ttg.async_copy_global_to_local %1, %a_11 mask %6 : tensor<64x64> -> <64x64xf16> loc(#loc28)
    %a_14 = ttng.async_tma_copy_global_to_local %1[%2] %a_11 : tensor<64x64> loc(#loc29)
"""
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


def test_lines_of_asynchronous_copies_are_those_of_the_loads_they_were():
    assert lines_fetched_ahead(TTGIR) == {11, 14}


def test_a_load_counts_whose_innermost_loop_stores():
    loops = loops_of(SOURCE)
    assert Loop(range(3, 5), stores=False) in loops
    assert ahead_of(frozenset({4, 7, 99}), loops) == {7: range(6, 9)}


@pytest.fixture
def at_line(monkeypatch):
    """Says in which line of the candidate's an access is."""

    def at(line):
        monkeypatch.setattr(own_stores, "line_now", lambda: line)

    return at


@pytest.fixture
def own():
    stores = OwnStores()
    stores.watched, stores.ahead = True, {7: range(6, 9)}
    return stores


def test_what_its_loop_stored_is_fetched_too_early_whatever_barriers_there_are(own, at_line):
    at_line(8)
    own.stored(WHERE, ALL, 4)
    own.forget()
    at_line(7)
    with pytest.raises(MemoryFault, match="4 elements that it stored itself in an earlier round"):
        own.loaded(WHERE, ALL, 4)
    own.loaded(WHERE + np.uint64(64), ALL, 4)
    at_line(4)
    own.loaded(WHERE, ALL, 4)


def test_what_was_stored_before_the_loop_or_by_another_program_is_there(own, at_line):
    at_line(2)
    own.stored(WHERE, ALL, 4)
    own.forget()
    at_line(7)
    own.loaded(WHERE, ALL, 4)
    at_line(8)
    own.stored(WHERE, ALL, 4)
    own.program_begins()
    at_line(7)
    own.loaded(WHERE, ALL, 4)
