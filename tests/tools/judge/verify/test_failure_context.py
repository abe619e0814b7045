"""What a wrong answer turns out to be: the reference's without one of its operands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.evaluation import Reason
from kernelagent.tools.judge.problem.trials.one_trial import STATE
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.compare.compare import Expected, compare, scales_of
from kernelagent.tools.judge.verify.diagnosis.failure_context import Memory, refusal_of


def test_forgotten_bias_of_a_convolution_is_named() -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 8, 3).requires_grad_(False)
    x = torch.randn(2, 3, 10, 10)

    def reference(tensors):
        weight, bias = (
            tensors.get(f"{STATE}conv.{name}", getattr(conv, name)).double()
            for name in ("weight", "bias")
        )
        return torch.tanh(nn.functional.conv2d(x.double(), weight, bias)).amax((2, 3))

    right = reference({})
    expected = Expected(right.float(), right, scales_of(right))
    forgotten = reference({f"{STATE}conv.bias": torch.zeros(8)}).float()
    comparison = compare(forgotten, expected, input_set="default", probe="natural")
    trial = Trial("default", "natural", ((x,), {}), None, expected, reference)
    memory = Memory(weights=[{f"conv.{name}": value for name, value in conv.state_dict().items()}])

    refused = refusal_of(comparison, trial, memory).reason

    assert refused.code == "insensitive"
    assert "it is the right answer if state.conv.bias is ignored" in refused.message


def test_a_module_that_refuses_other_inputs_changes_no_refusal_into_its_own_error() -> None:
    right = torch.linspace(1.0, 2.0, 64, dtype=torch.float64)
    expected = Expected(right.float(), right, scales_of(right))
    comparison = compare(right.float() * 1.5, expected, input_set="default", probe="natural")

    def checks(tensors):
        raise ProblemError("its inputs must be positive")

    trial = Trial("default", "natural", ((right.float(),), {}), None, expected, checks)

    assert refusal_of(comparison, trial, Memory()).reason.code == "wrong_output"


def test_a_refusal_tells_the_error_in_ulps_beside_what_is_allowed() -> None:
    right = torch.full((4, 64), 1.5, dtype=torch.float64)
    expected = Expected(right.to(torch.float16), right, scales_of(right))
    wrong = right.to(torch.float16)
    wrong[2, 7] += 40 * torch.finfo(torch.float16).eps
    comparison = compare(wrong, expected, input_set="default", probe="natural")
    trial = Trial("default", "natural", ((right,), {}), None, expected, lambda _: right)

    detail = refusal_of(comparison, trial, Memory()).reason.detail

    assert (detail["ulps"], detail["dtype"]) == (40.0, "float16")
    assert detail["max_error"] == 40 * torch.finfo(torch.float16).eps
    assert 0 < detail["max_budget"] < detail["max_error"]
    assert detail["rms_budget"] > 0


def test_where_nothing_is_counted_in_ulps_none_are_told() -> None:
    right = torch.arange(64)
    expected = Expected(right, right, {})
    comparison = compare(right + 1, expected, input_set="default", probe="natural")
    trial = Trial("default", "natural", ((right,), {}), None, expected, lambda _: right)

    assert "ulps" not in refusal_of(comparison, trial, Memory()).reason.detail


def two_products_refused(wrong: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Reason:
    """What is said of a sum of two linear layers computed as `wrong` of their weights."""
    torch.manual_seed(0)
    x = torch.randn(4, 16)
    weights = {"first": torch.randn(16, 16), "second": torch.randn(16, 16)}

    def reference(tensors):
        first, second = (tensors.get(STATE + n, w).double() for n, w in weights.items())
        return x.double() @ first.T + x.double() @ second.T

    right = reference({})
    expected = Expected(right.float(), right, scales_of(right))
    answer = x @ wrong(weights["first"], weights["second"]).T
    comparison = compare(answer, expected, input_set="default", probe="natural")
    trial = Trial("default", "natural", ((x,), {}), None, expected, reference)
    return refusal_of(comparison, trial, Memory(weights=[weights])).reason


def test_a_matrix_that_was_read_by_its_other_dimension_is_named() -> None:
    refused = two_products_refused(lambda first, second: first + second.T)
    assert refused.code == "wrong_output"
    assert "it is the right answer if state.second is transposed" in refused.message


def test_two_weights_in_each_others_place_are_named() -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 16)
    weights = {"weight": torch.rand(16) + 0.5, "bias": torch.randn(16)}

    def reference(tensors):
        scale, shift = (tensors.get(STATE + n, w).double() for n, w in weights.items())
        return x.double() * scale + shift

    right = reference({})
    expected = Expected(right.float(), right, scales_of(right))
    answer = x * weights["bias"] + weights["weight"]
    comparison = compare(answer, expected, input_set="default", probe="natural")
    trial = Trial("default", "natural", ((x,), {}), None, expected, reference)
    refused = refusal_of(comparison, trial, Memory(weights=[weights])).reason
    assert "if state.weight and state.bias have changed places" in refused.message


def test_a_matrix_that_is_not_used_is_named() -> None:
    refused = two_products_refused(lambda first, second: second)
    assert refused.code == "insensitive"
    assert "it is the right answer if state.first is ignored" in refused.message
    assert "state." not in two_products_refused(lambda first, second: first + 2 * second).message


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (slice(0, 99), "place 99 of the 100 along dimension 1 of argument[0] is"),
        (slice(0, 96), "places 96 to 99 of the 100 along dimension 1 of argument[0] are"),
        (slice(16, 100), "places 0 to 15 of the 100 along dimension 1 of argument[0] are"),
    ],
)
def test_a_loop_that_leaves_out_a_part_of_each_row_is_told_by_that_part(
    places: slice, words: str
) -> None:
    torch.manual_seed(0)
    x = torch.rand(5, 100)

    def reference(tensors):
        return tensors.get("arguments[0][0]", x).double().sum(1)

    right = reference({})
    expected = Expected(right.float(), right, scales_of(right))
    comparison = compare(x[:, places].sum(1), expected, input_set="default", probe="natural")
    trial = Trial("default", "natural", ((x,), {}), None, expected, reference)
    refused = refusal_of(comparison, trial, Memory()).reason
    assert f"if {words} left out" in refused.message
