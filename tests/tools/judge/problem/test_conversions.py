"""Conversions to integers that are another number on a GPU are not asked of a reference that makes none."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.conversions import (
    Conversions,
    Undefined,
    defined_as_in,
)
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.planting.literals import Literals
from kernelagent.tools.judge.problem.trials.trials import PLAN_AT_THE_END, rounds


@pytest.mark.parametrize(
    ("to", "held", "not_held"),
    [
        (torch.int32, 2.1e9, 2.2e9),
        (torch.int32, -2.1e9, float("nan")),
        (torch.int64, 9.2e18, 9.3e18),
        (torch.int16, 32767.5, 40000.0),
        (torch.int8, 300.0, 40000.0),
        (torch.uint8, 300.0, -1.0),
        (torch.uint8, -0.5, 70000.0),
    ],
)
def test_a_number_is_defined_where_a_cpu_and_a_gpu_make_the_same_integer_of_it(to, held, not_held):
    with Conversions(refuse=True):
        torch.tensor([held]).to(to)
        torch.empty(1, dtype=to).copy_(torch.tensor([held]))
        with pytest.raises(Undefined, match=f"numbers that {str(to)[6:]} cannot hold"):
            torch.tensor([1.0, not_held]).to(to)
        with pytest.raises(Undefined):
            torch.empty(1, dtype=to).copy_(torch.tensor([not_held]))


def test_what_a_module_does_on_its_own_inputs_is_not_refused_on_others():
    large = torch.tensor([1e12])
    with defined_as_in(lambda: torch.tensor([1.0]).int()), pytest.raises(Undefined):
        large.int()
    with defined_as_in(large.int):
        large.int()
    with defined_as_in(lambda: large + 1):
        large.int()


PROBLEM = """\
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Parameter(torch.ones(()))
    def forward(self, x):
        return (x / self.step * 4096.0).to(torch.int32).to(torch.int8)

def get_inputs():
    return [torch.randn(8, 32)]
def get_init_inputs():
    return []
"""


@pytest.mark.long
def test_no_call_asks_a_quantiser_for_integers_that_there_are_not(tmp_path):
    file = tmp_path / "problem.py"
    file.write_text(PROBLEM)
    problem = load_problem(ProblemSpec(path=str(file)))
    oracle = Oracle(problem, "cpu", nullcontext)
    source = InputSource(
        "default", ((torch.randn(8, 32),), {}), lambda _: ((torch.randn(8, 32),), {})
    )
    largest = 0.0
    for item in rounds(
        oracle,
        (source,),
        {},
        plan=PLAN_AT_THE_END,
        literals=Literals((4096.0, 1024.0)),
    ):
        oracle.use_weights(item.weights)
        for trial in item.trials:
            looked = Conversions()
            with looked:
                oracle.eager(trial.arguments)
            assert not looked.undefined, trial.probe
            largest = max(largest, float(trial.arguments[0][0].abs().max()))
    assert largest > 100, "what is in range is asked all the same"


HALVES = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return (x.float() * 300).half()


def get_inputs():
    return [torch.randn(8, 32).half()]


def get_init_inputs():
    return []
"""


@pytest.mark.long
def test_no_call_asks_for_results_that_overflow_where_the_modules_own_are_halves(tmp_path):
    # In float64 they have an answer; a right kernel may round on another way there.
    file = tmp_path / "problem.py"
    file.write_text(HALVES)
    oracle = Oracle(load_problem(ProblemSpec(path=str(file))), "cpu", nullcontext)

    def drawn(_):
        return ((torch.randn(8, 32).half(),), {})

    source = InputSource("default", drawn(0), drawn)
    probes = {}
    for item in rounds(oracle, (source,), {}, plan=PLAN_AT_THE_END, literals=Literals(())):
        oracle.use_weights(item.weights)
        probes |= {trial.probe: oracle.eager(trial.arguments) for trial in item.trials}
    assert "large_logits" in probes, "it is asked nearer to the natural values"
    assert all(bool(answer.isfinite().all()) for answer in probes.values())
