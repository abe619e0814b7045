"""No call asks for an answer that is nothing in 32 bits: on the way to it another order may meet an infinity."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.planting.literals import NONE
from kernelagent.tools.judge.problem.trials.trials import PLAN_AT_THE_END, rounds

pytestmark = pytest.mark.long

PROBLEM = """\
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return ANSWER

def get_inputs():
    return [torch.rand(16, 40) * 0.2 + 0.9]
def get_init_inputs():
    return []
"""


def calls(folder, answer):
    file = folder / "problem.py"
    file.write_text(PROBLEM.replace("ANSWER", answer))
    oracle = Oracle(load_problem(ProblemSpec(path=str(file))), "cpu", nullcontext)

    def drawn(_=None):
        return (torch.rand(16, 40) * 0.2 + 0.9,), {}

    source = InputSource("default", drawn(), drawn)
    made = rounds(oracle, (source,), {}, plan=PLAN_AT_THE_END, literals=NONE)
    return [trial.arguments[0][0] for item in made for trial in item.trials]


def test_a_product_of_all_is_asked_where_every_order_has_an_answer(tmp_path):
    made = calls(tmp_path, "x.prod()")
    assert len(made) > 10
    for x in made:
        exact = x.double().prod().abs().item()
        assert exact == 0 or exact > torch.finfo(torch.float32).tiny
    assert max(x.abs().max().item() for x in made) > 2


@pytest.mark.parametrize("answer", ["x.softmax(-1)", "torch.exp(-x * x)"])
def test_where_some_elements_are_nothing_and_others_not_it_is_asked(tmp_path, answer):
    made = calls(tmp_path, answer)
    assert any(bool((-x * x).exp().eq(0).any()) for x in made)
