"""Results come back as inputs, gradients as upstream gradients, and one tensor for two arguments."""

from __future__ import annotations

from contextlib import nullcontext
from textwrap import dedent

import pytest
import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.calls.backwards import APART
from kernelagent.tools.calls.training_step import GRADIENTS
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.steps.steps import single_step
from kernelagent.tools.judge.problem.trials.known_trials import known_trial
from kernelagent.tools.judge.verify.beyond.fed_back import fed_back, one_for_two
from kernelagent.tools.judge.verify.compare.compare import compare

MODULE = """\
    import torch
    from torch import nn

    class Model(nn.Module):
        def forward(self, {names}):
            return {returned}

    def get_inputs():
        return [torch.randn(4, 8)]
    def get_init_inputs():
        return []
"""


def reference(tmp_path, names, returned):
    file = tmp_path / "problem.py"
    file.write_text(dedent(MODULE).format(names=names, returned=returned))
    return Oracle(load_problem(ProblemSpec(path=str(file))), "cpu", nullcontext)


def trial_on(oracle, *tensors):
    made = known_trial(oracle, "default", (tensors, {}), torch.Generator().manual_seed(1))
    assert made is not None
    return made


def test_the_next_call_has_the_candidates_very_bits_and_the_references_answer_to_them(tmp_path):
    trial = trial_on(reference(tmp_path, "x", "x.tanh()"), torch.randn(4, 8))
    own = trial.expected.output * (1 + 2**-20)
    then = fed_back(reference(tmp_path, "x", "x.tanh()"), trial, own)
    assert torch.equal(then.arguments[0][0], own)
    assert torch.equal(then.expected.output, own.tanh())


@pytest.mark.parametrize(
    ("returned", "inputs"),
    [
        ("x.sum(-1)", torch.randn(4, 8)),
        ("x.double()", torch.randn(4, 8)),
        ("-x", torch.rand(4, 8)),
        ("x + float('inf')", torch.randn(4, 8)),
        ("x @ x.T", torch.eye(8)),
        ("x.exp().exp().exp()", 1 + torch.randn(4, 8).abs()),
    ],
)
def test_no_call_follows_where_a_result_is_no_such_input_or_has_no_answer(
    tmp_path, returned, inputs
):
    oracle = reference(tmp_path, "x", returned)
    trial = known_trial(oracle, "default", ((inputs,), {}), torch.Generator().manual_seed(1))
    output = oracle.eager(((inputs,), {}))
    assert trial is None or fed_back(oracle, trial, output) is None


def test_the_gradient_of_an_input_becomes_the_upstream_gradient(tmp_path):
    oracle, generator = reference(tmp_path, "x", "x.tanh()"), torch.Generator().manual_seed(1)
    arguments = ((torch.randn(4, 8),), {})
    step = single_step(oracle, arguments, generator)
    made = known_trial(oracle.asking(step), "default", arguments, generator)
    trial = type(made)(**{**vars(made), "step": step})
    then = fed_back(oracle, trial, trial.expected.output)
    gradient = trial.expected.output[GRADIENTS][APART]["input 0"]
    assert torch.equal(then.step.upstream[0][0], gradient)
    slope = 1 - arguments[0][0].double().tanh() ** 2
    torch.testing.assert_close(
        then.expected.output64[GRADIENTS][APART]["input 0"], gradient.double() * slope
    )


def test_one_tensor_is_given_for_two_of_one_form(tmp_path):
    oracle = reference(tmp_path, "x, y", "x + y")
    made = one_for_two(oracle, trial_on(oracle, torch.randn(4, 8), torch.randn(4, 8)))
    assert made.lasts
    assert made.trial.arguments[0][0] is made.trial.arguments[0][1]
    assert torch.equal(made.trial.expected.output, 2 * made.trial.arguments[0][0])


def test_of_two_that_cancel_the_reference_has_no_lasting_answer(tmp_path):
    oracle = reference(tmp_path, "x, y", "(x * x + y * y - 2 * (x * y)).sqrt()")
    made = one_for_two(oracle, trial_on(oracle, torch.randn(4, 8), torch.randn(4, 8)))
    assert not made.lasts
    assert made.trial.arguments[0][0] is made.trial.arguments[0][1]


def test_a_tensor_that_is_given_twice_is_one_in_the_reference(tmp_path):
    oracle, x = reference(tmp_path, "x, y", "x.add_(1) + y"), torch.zeros(4, 8)
    assert torch.equal(oracle.eager(((x, x), {})), torch.full((4, 8), 2.0))
    assert torch.equal(oracle.eager(((x, x.clone()), {})), torch.ones(4, 8))


def test_tensors_of_two_forms_stay_two_and_so_do_those_that_are_written_to(tmp_path):
    plain = reference(tmp_path, "x, y", "x + y")
    assert one_for_two(plain, trial_on(plain, torch.randn(4, 8), torch.randn(8))) is None
    writes = reference(tmp_path, "x, y", "x.add_(y)")
    assert one_for_two(writes, trial_on(writes, torch.randn(4, 8), torch.randn(4, 8))) is None


@pytest.mark.long
def test_other_steps_in_16_bits_are_as_right_with_one_tensor_as_with_two(tmp_path):
    oracle = reference(tmp_path, "x, y", "(x * 8 + y.tanh() * 8 - x * 7).softmax(-1) @ x + y")
    drawn = torch.Generator().manual_seed(0)
    x, y = (torch.randn(192, 192, generator=drawn).bfloat16() for _ in range(2))
    made = one_for_two(oracle, trial_on(oracle, x, y))
    assert made.lasts
    (one, _), _ = made.trial.arguments
    otherwise = ((one * 8 - one * 7) + one.tanh() * 8).softmax(-1) @ one + one
    how = {"input_set": "default", "probe": "natural"}
    assert compare(otherwise, made.trial.compared, **how).passed
    column = torch.arange(192) == 5
    assert not compare(otherwise + column, made.trial.compared, **how).passed
