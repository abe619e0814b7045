"""Plain numbers of a nest of arguments are found by their place, and exchanged one by one."""

from __future__ import annotations

import torch

from kernelagent.tools.judge.verify.beyond.other_numbers import numbers_in, with_number


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
