"""Operations that have bytes in common are found by sorting: the same pairs as by looking at all of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.virtual.batched.accesses import Access, Runs
from kernelagent.tools.virtual.batched.between_programs import overlaps
from kernelagent.tools.virtual.batched.between_programs.overlaps import may_overlap, meet
from kernelagent.tools.virtual.executor.launch import AccessKind

KINDS: tuple[AccessKind, ...] = ("load", "store", "atomic")
STRETCHES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=4)
LAUNCHES = st.lists(st.tuples(st.sampled_from(KINDS), STRETCHES), max_size=8)


def accesses_of(launch: list[tuple[AccessKind, list[tuple[int, int]]]]) -> list[Access]:
    return [
        Access(kind, at, runs_of(stretches), item_bytes=1, lanes=1, shared=False)
        for at, (kind, stretches) in enumerate(launch)
    ]


def runs_of(stretches: list[tuple[int, int]]) -> Runs:
    start, length = np.array(stretches, dtype=np.int64).reshape(-1, 2).T
    return Runs(np.arange(start.size), start, length)


def bytes_of(access: Access) -> set[int]:
    runs = zip(access.runs.start.tolist(), access.runs.length.tolist(), strict=True)
    return {at for start, length in runs for at in range(start, start + length)}


def by_looking_at_all(accesses: list[Access]) -> list[tuple[int, int]]:
    pairs = [
        (first, then)
        for first, then in combinations(range(len(accesses)), 2)
        if {accesses[first].kind, accesses[then].kind} != {"load"}
        and bytes_of(accesses[first]) & bytes_of(accesses[then])
    ]
    return sorted(pairs, key=lambda pair: pair[::-1])


@given(LAUNCHES)
def test_pairs_are_those_that_a_look_at_every_byte_finds(
    launch: list[tuple[AccessKind, list[tuple[int, int]]]],
) -> None:
    accesses = accesses_of(launch)
    assert may_overlap(accesses) == by_looking_at_all(accesses)


@given(LAUNCHES)
def test_where_that_were_too_many_none_of_them_is_missed(
    launch: list[tuple[AccessKind, list[tuple[int, int]]]],
) -> None:
    accesses = accesses_of(launch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlaps, "_LOOKED_AT", 0)
        pairs = may_overlap(accesses)
    exact = [(first, then) for first, then in pairs if meet(accesses[first], accesses[then])]
    assert exact == by_looking_at_all(accesses)


@given(STRETCHES, STRETCHES)
def test_two_operations_meet_where_they_share_a_byte(
    first: list[tuple[int, int]], then: list[tuple[int, int]]
) -> None:
    one, other = accesses_of([("load", first), ("store", then)])
    assert meet(one, other) == bool(bytes_of(one) & bytes_of(other))
