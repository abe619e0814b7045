"""Plain numbers of a nest of arguments are found by their place, and exchanged one by one for others near them."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.trials.plain_numbers import (
    numbers_in,
    others_near,
    with_number,
)


def test_numbers_are_found_by_their_place_and_exchanged_one_by_one() -> None:
    x = torch.ones(2)
    arguments = ((x, 3, [0.5, x]), {"causal": True, "name": "rows"})
    assert numbers_in(arguments) == {
        "arguments[0][1]": 3,
        "arguments[0][2][0]": 0.5,
        "arguments[1]['causal']": True,
    }
    args, kwargs = with_number(arguments, "arguments[0][2][0]", 0.75)
    assert args[1] == 3
    assert args[2][0] == 0.75
    assert args[2][1] is x
    assert kwargs == {"causal": True, "name": "rows"}


@pytest.mark.parametrize(
    ("number", "others"),
    [(True, [False]), (2, [3, 4]), (0.0, [1.0]), (0.5, [0.375]), (2.0, [2.5]), (0.125, [0.15625])],
)
def test_others_lie_on_the_side_on_which_a_loop_ends(number: float, others: list[float]) -> None:
    assert list(others_near(number)) == others
