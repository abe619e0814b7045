"""What a refusal says of the call that it ends with."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.reference.expected import Expected
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.refusal_words import on_the_judges_inputs
from kernelagent.tools.judge.verify.rejection import Rejected


def trial(probe, *tensors):
    nothing = Expected(None, None, ((), {}), {}, {})
    wanted = compare.Expected(eager=None, oracle64=None, natural_rms={})
    return Trial("inputs", probe, (tensors, {}), nothing, wanted, lambda _: None)


def said(probe, code, *tensors):
    with pytest.raises(Rejected) as refused, on_the_judges_inputs(trial(probe, *tensors)):
        raise Rejected(code, "it raced", {})
    return refused.value.reason.message


def test_a_race_on_the_judges_own_inputs_says_whose_they_are_and_where_numbers_repeat():
    message = said("edges", "data_race", torch.zeros(4), torch.tensor([3, 1, 3]))
    assert "the judge's own: zeros of both signs" in message
    assert "in arguments[0][1] some numbers come more than once" in message
    assert "more than once" not in said("edges", "data_race", torch.tensor([3, 1, 2]))


def test_a_race_on_the_users_own_inputs_and_other_refusals_are_left_as_they_are():
    assert said("natural", "data_race", torch.tensor([3, 1, 3])) == "it raced"
    assert said("edges", "wrong_output", torch.tensor([3, 1, 3])) == "it raced"
