"""Calls in which a bound of the reference is hit exactly, and only where every order of exact steps agrees."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_leaves

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.calls.training_step import GRADIENTS
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.reference.rounded_steps import RoundedSteps
from kernelagent.tools.judge.problem.trials.corners import corner_rounds
from kernelagent.tools.judge.problem.trials.inputs import input_sources
from kernelagent.tools.judge.problem.trials.planting.literals import NONE
from kernelagent.tools.judge.verify.compare.compare import compare

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(1 + 0.1 * torch.randn(n))

    def forward(self, x, y):
        return {answer}


def get_inputs():
    return [torch.randn(16, 64), torch.randn(16, 64)]


def get_init_inputs():
    return [64]
"""


def rounds_of(folder: Path, answer: str, *, steps: bool = True):
    path = folder / "problem.py"
    path.write_text(SOURCE.format(answer=answer), encoding="utf-8")
    problem = load_problem(ProblemSpec(path=str(path)))
    oracle = Oracle(problem, "cpu", nullcontext)
    sources = input_sources(problem, oracle.module, "cpu", nullcontext, may_shrink=True)
    return list(corner_rounds(oracle, sources, literals=NONE, steps=steps))


def test_corners_are_hit_and_rounding_does_not_decide_there(tmp_path):
    (one,) = rounds_of(tmp_path, "torch.clamp((x - y) * self.scale, -6.0, 6.0)")
    (trial,) = one.trials
    (x, y), _ = trial.arguments
    z = (x - y) * one.weights["scale"]
    assert int((z.abs() == 6.0).sum()) > 5
    for right, moved in zip(
        tree_leaves(trial.expected.output64),
        tree_leaves(trial.compared.moved),
        strict=True,
    ):
        if isinstance(right, torch.Tensor):
            torch.testing.assert_close(moved, right, rtol=1e-5, atol=1e-4)


@pytest.mark.long
def test_another_gradient_at_the_bound_alone_is_refused(tmp_path):
    (one,) = rounds_of(tmp_path, "torch.clamp((x - y) * self.scale, -6.0, 6.0)")
    (trial,) = one.trials
    (x, y), _ = trial.arguments
    at_bound = ((x - y) * one.weights["scale"]).abs() == 6.0
    answer = copy.deepcopy(trial.expected.output)
    assert compare(answer, trial.compared, input_set="", probe="").passed
    answer[GRADIENTS]["apart"]["input 0"][at_bound] = 0.0
    result = compare(answer, trial.compared, input_set="", probe="")
    assert result.reason is not None
    assert "further off than rounding explains" in result.reason.message


def test_nothing_is_asked_where_a_division_comes_before_the_bound(tmp_path):
    assert rounds_of(tmp_path, "torch.clamp((x - y) / 3.0 * self.scale, -2.0, 2.0)") == []


def test_what_float32_holds_stays_where_exact_steps_are_kept():
    exact, third = torch.tensor([2.0, 3.0]).double(), torch.tensor([1.0, 2.0]).double()
    with RoundedSteps(torch.Generator().manual_seed(1), keeps_exact=True):
        products, quotients = exact * third, third / 3.0
        sums = exact + 0.1
    assert torch.equal(products, torch.tensor([2.0, 6.0]).double())
    with RoundedSteps(torch.Generator().manual_seed(1), keeps_exact=True):
        halves, whole = exact / 4.0, torch.div(exact, 2.0, rounding_mode="floor")
    assert torch.equal(halves, torch.tensor([0.5, 0.75]).double())
    assert bool((whole != 1.0).all()), "as floor(x / 2) is moved, which is the same function"
    with RoundedSteps(torch.Generator().manual_seed(1)):
        assert bool((exact / 4.0 != halves).all())
    assert bool((quotients != third / 3.0).all())
    assert bool((sums != exact + 0.1).all())


def test_numbers_at_which_roundings_and_conversions_change_are_asked_for_exactly(tmp_path):
    (one,) = rounds_of(tmp_path, "torch.round(x) - torch.floor(y)", steps=False)
    asked = torch.cat([trial.arguments[0][0].reshape(-1) for trial in one.trials]).abs()
    assert len(one.trials) == 7
    assert bool((asked == 0.5).any())
    assert bool((asked == torch.nextafter(torch.tensor(0.5), torch.tensor(0.0))).any())
    assert bool((asked.frexp().mantissa == 0.5).any())
    bits = asked.view(torch.int32) & 0xFFFF
    assert bool((bits == 0x8000).any()), "nothing is midway between two numbers of bfloat16"


@pytest.mark.parametrize("down", [2, 4, 8])
def test_a_half_behind_a_scale_is_asked_for_and_a_power_of_two_divides_exactly(tmp_path, down):
    (one,) = rounds_of(tmp_path, f"torch.round(x * {down}) / {down}", steps=False)
    # Halves by this power of two alone: of larger numbers half a step is within what rounding of them explains.
    refused = []
    for trial in one.trials:
        (x, _), _ = trial.arguments
        upward = torch.floor(x.double() * down + 0.5) / down
        share = (upward != trial.compared.oracle64).double().mean()
        if share > 0.05 and float(x.abs().max()) <= 8.0:
            answered = compare(
                upward.float(), trial.compared, input_set="default", probe="literals"
            )
            refused.append(answered.reason is not None)
    assert refused
    assert all(refused)


def test_of_whole_numbers_no_near_tie_is_forgiven_where_all_is_exact(tmp_path):
    (one,) = rounds_of(tmp_path, "torch.round(x).to(torch.int32)", steps=False)
    wrong = torch.ones(16, 64, dtype=torch.bool)
    for trial in one.trials:
        output = trial.expected.output
        assert not bool(trial.near_ties("output", output + 1, wrong).any())
