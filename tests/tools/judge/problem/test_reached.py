"""State that a module reaches by itself is what candidates are called from."""

from __future__ import annotations

from contextlib import nullcontext
from textwrap import dedent

import pytest
import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.reference.reached import FORWARDS_IN, reached

COUNTING = """\
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros((), dtype=torch.long))
            self.register_buffer("places", torch.zeros(PLACES))
        def forward(self, x):
            self.places[self.seen] = x.sum()
            self.seen.add_(1)
            return x + self.places.sum()

    def get_inputs():
        return [torch.randn(4)]
    def get_init_inputs():
        return []
"""
INPUTS = (torch.ones(4),), {}


def counting(tmp_path, places):
    file = tmp_path / "problem.py"
    file.write_text(dedent(COUNTING).replace("PLACES", str(places)))
    oracle = Oracle(load_problem(ProblemSpec(path=str(file))), "cpu", nullcontext)
    # What torch loads for the first forward of a process takes longer than all of them may.
    oracle.state_after(INPUTS)
    return oracle


@pytest.mark.parametrize("number", FORWARDS_IN)
def test_calls_begin_where_so_many_forwards_have_ended(tmp_path, number):
    oracle = counting(tmp_path, 1000)
    state, count = reached(oracle, oracle.given_weights, [INPUTS], number)
    fewest, most = FORWARDS_IN[number]
    assert fewest <= count <= most
    assert int(state["seen"]) == count
    assert int((state["places"] != 0).sum()) == count
    assert int(oracle.weights["seen"]) == 0


def test_a_module_that_takes_no_more_is_called_from_further_back(tmp_path):
    oracle = counting(tmp_path, 20)
    state, count = reached(oracle, oracle.given_weights, [INPUTS], 2)
    assert count == 17
    oracle.use_weights(state)
    for _ in range(3):
        oracle.use_weights(oracle.state_after(INPUTS))


DECAYING = """\
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("most", torch.ones(8))
        def forward(self, x):
            ONLY
            self.most.copy_(torch.maximum(self.most * 0.9, x.abs().amax(0)))
            return x / self.most

    def get_inputs():
        return [torch.randn(16, 8)]
    def get_init_inputs():
        return []
"""


@pytest.mark.parametrize(
    ("only", "quiet"), [("pass", True), ("assert x.abs().max() > 0.5, 'too quiet'", False)]
)
def test_in_one_round_what_decays_has_come_down_where_quiet_inputs_are_taken(tmp_path, only, quiet):
    file = tmp_path / "problem.py"
    file.write_text(dedent(DECAYING).replace("ONLY", only))
    oracle = Oracle(load_problem(ProblemSpec(path=str(file))), "cpu", nullcontext)
    drawn = [((torch.randn(16, 8),), {}) for _ in range(2)]
    # What torch loads for the first forward of a process takes longer than all of them may.
    oracle.state_after(drawn[0])
    state, count = reached(oracle, oracle.given_weights, drawn, 2)
    assert count > 0
    if quiet:
        assert float(state["most"].max()) < 0.5
    natural, _ = reached(oracle, oracle.given_weights, drawn, 4)
    assert float(natural["most"].min()) > 0.5


def test_where_the_first_forwards_fail_the_state_is_the_given_one(tmp_path):
    oracle = counting(tmp_path, 2)
    assert reached(oracle, oracle.given_weights, [INPUTS], 2) == (oracle.given_weights, 0)


def test_rounds_in_which_nothing_went_before_keep_the_given_state(tmp_path):
    oracle = counting(tmp_path, 50)
    assert reached(oracle, oracle.given_weights, [INPUTS], 0)[1] == 0
