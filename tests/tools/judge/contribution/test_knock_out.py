"""Finding the launches that do not matter, with as few extra calls as halving needs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.judge.contribution.knock_out import without_effect


def judge_of(needed):
    calls = []

    def right_without(launches):
        calls.append(tuple(launches))
        return not needed & set(launches)

    return right_without, calls


@given(st.integers(2, 40), st.data())
def test_no_launch_that_matters_is_ever_called_idle(count, data):
    needed = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    right_without, calls = judge_of(needed)
    assert not without_effect(range(count), right_without) & needed
    assert len(calls) <= 13


def test_one_useful_launch_among_many_is_found():
    right_without, _ = judge_of({5})
    assert without_effect(range(16), right_without) == frozenset(range(16)) - {5}


def test_two_launches_that_stand_in_for_each_other_are_both_used():
    def right_without(launches):
        return not {0, 1} <= set(launches)

    assert without_effect(range(2), right_without) == frozenset()
