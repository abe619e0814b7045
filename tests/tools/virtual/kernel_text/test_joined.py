"""Conditions that are joined: each of them is a choice of its own, whatever joins them."""

from __future__ import annotations

from typing import Any

import pytest

from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.tools.virtual import joined_kernels as kernels
from tests.tools.virtual.kernel_text.test_effects import ZEROS, X, told

_CHEATS = [
    kernels.by_operators,
    kernels.by_a_band,
    kernels.by_two_that_each_happen,
    kernels.by_names,
    kernels.by_exclusive_or,
    kernels.by_negations,
    kernels.by_a_sum,
    kernels.by_a_maximum_of_truths,
    kernels.by_a_maximum_of_numbers,
    kernels.by_choosing,
    kernels.by_or,
    kernels.by_a_mask,
    kernels.by_a_side,
    kernels.by_calls_of_one_function,
]


@pytest.fixture(scope="module", params=["together", "one by one"])
def interpreter(request: pytest.FixtureRequest) -> BatchedInterpreter:
    return (
        BatchedInterpreter() if request.param == "together" else BatchedInterpreter(most_together=0)
    )


@pytest.mark.parametrize("kernel", _CHEATS, ids=lambda kernel: kernel.fn.__name__)
def test_a_rare_condition_behind_a_harmless_one_is_told(
    interpreter: BatchedInterpreter, kernel: Any
) -> None:
    assert told(interpreter, kernel, X, ZEROS.clone(), grid=2)


def test_what_each_decides_both_ways_is_quiet(interpreter: BatchedInterpreter) -> None:
    assert told(interpreter, kernels.honest, X, ZEROS.clone(), grid=2) == ""
