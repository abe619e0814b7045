"""Which atomics of a text order programs: those whose value decides something."""

from __future__ import annotations

import pytest

from kernelagent.tools.virtual.compiled.synchronising import (
    dropped_atomics,
    non_synchronizing_atomics,
)

ADDS = "def kernel(p):\n    tl.atomic_add(p, 1)\n"
NOTED = "def kernel(p, q):\n    before = tl.atomic_add(p, 1)\n    tl.store(q, before)\n"
WAITS = "def kernel(p):\n    while tl.atomic_cas(p, 0, 1) == 1:\n        pass\n"
NONE = "def kernel(p):\n    tl.store(p, 1)\n"
WIDE_LETTERS = "def kernel(p):\n    tl.\uff41tomic_add(p, 1)\n"
NO_PYTHON = "def kernel(p:\n    tl.atomic_add(p, 1)\n"


@pytest.mark.parametrize(
    ("text", "decide_nothing", "dropped"),
    [
        pytest.param(ADDS, {2}, {2}, id="adds"),
        pytest.param(NOTED, {2}, set(), id="stores what it returns"),
        pytest.param(WAITS, set(), set(), id="waits"),
        pytest.param(NONE, set(), set(), id="none"),
        pytest.param(WIDE_LETTERS, {2}, {2}, id="letters that Python takes for others"),
        pytest.param(NO_PYTHON, set(), set(), id="no Python"),
    ],
)
def test_atomics_are_told_by_what_becomes_of_their_value(text, decide_nothing, dropped):
    assert non_synchronizing_atomics(text) == decide_nothing
    assert dropped_atomics(text) == dropped
