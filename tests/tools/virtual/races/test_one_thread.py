"""What one thread stored and loads again is its own; what the others load counts once they do something with it."""

from __future__ import annotations

import numpy as np
import pytest

from kernelagent.tools.virtual.compiled.barriers import Barriers
from kernelagent.tools.virtual.compiled.memory_operations import Threads
from kernelagent.tools.virtual.executor.launch import MemoryFault
from kernelagent.tools.virtual.races import own_stores
from kernelagent.tools.virtual.races.own_stores import OwnStores

PLAIN = "ld.global.b32 %r1, [%rd1];\nst.global.b32 [%rd1], %r1;\n"
ONE = np.array([64], dtype=np.uint64)
MANY = np.arange(64, 192, 4, dtype=np.uint64)


@pytest.fixture
def memory(monkeypatch):
    monkeypatch.setattr(own_stores, "line_now", lambda: 7)

    def made(ptx=PLAIN, num_ctas=1):
        result = OwnStores()
        result.watched = True
        result.threads = Threads(
            barriers=Barriers(ptx, 4, num_ctas), barriers_for_all=num_ctas == 1
        )
        result.program_begins()
        return result

    return made


def stored(own, where):
    own.stored(where, np.ones(where.shape, dtype=bool), 4)


def loaded(own, where):
    own.loaded(where, np.ones(where.shape, dtype=bool), 4)


def test_a_program_of_single_numbers_may_count_in_memory(memory):
    own = memory()
    for _ in range(3):
        loaded(own, ONE)
        stored(own, ONE)
    own.program_begins()
    loaded(own, MANY)


@pytest.mark.parametrize("further", [stored, loaded])
def test_once_other_threads_access_a_block_what_they_loaded_counts(memory, further):
    own = memory()
    stored(own, ONE)
    loaded(own, ONE)
    with pytest.raises(MemoryFault, match="other threads of the same program stored"):
        further(own, MANY + np.uint64(4096))


@pytest.mark.parametrize(
    ("ptx", "num_ctas"),
    [
        (PLAIN + "bar.sync 0;\n", 1),
        (PLAIN + "shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1;\n", 1),
        (PLAIN + "st.shared.b32 [%r3], %r1;\n", 1),
        (PLAIN, 2),
        ("", 1),
    ],
)
def test_where_threads_meet_anywhere_none_is_alone(memory, ptx, num_ctas):
    own = memory(ptx, num_ctas)
    stored(own, ONE)
    with pytest.raises(MemoryFault):
        loaded(own, ONE)


def test_a_block_before_is_a_block_too(memory):
    own = memory()
    loaded(own, MANY)
    stored(own, ONE)
    with pytest.raises(MemoryFault):
        loaded(own, ONE)
