"""Over how many sets of inputs a timing rotates, and when they cannot leave the cache."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.timing.measuring import cached_inputs, rotations

H200_L2 = 60 << 20
_MIB = 1 << 20


def of_size(size: int) -> InputSource:
    whole = ((torch.empty(size, dtype=torch.uint8, device="meta"),), {})
    return InputSource("default", whole, lambda seed: whole)


@given(st.integers(1, 1 << 36))
def test_inputs_leave_the_largest_cache_or_that_is_said(size: int) -> None:
    count = rotations(size)
    assert count >= 2
    assert (cached_inputs(of_size(size), H200_L2) is None) == (count * size > H200_L2)


@pytest.mark.parametrize("size", [_MIB // 4, _MIB // 2, 3 * _MIB // 4, _MIB, 200 * _MIB])
def test_inputs_of_a_quarter_of_a_megabyte_already_leave_an_h200s_cache(size: int) -> None:
    assert cached_inputs(of_size(size), H200_L2) is None


def test_what_stays_in_the_cache_is_disclosed_with_its_sizes() -> None:
    note = cached_inputs(of_size(4096), H200_L2)
    assert note is not None
    assert note.code == "inputs_in_cache"
    assert "4096 bytes" in note.message
    assert "60 MiB" in note.message
    assert cached_inputs(of_size(4096), None) is None
