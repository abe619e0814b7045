from __future__ import annotations

import pytest
import torch

from benchmarks.gate_cases import OPERATIONS, Operation, drawn, normal, uniform, zeros
from benchmarks.gate_table import reference64, trials
from kernelagent.tools.judge.admission.checkable import admit
from kernelagent.tools.judge.admission.mutants import Checked, mutants


def cases_of(operation, dtype=torch.float32):
    return [Checked(t.probe, t.tensors, t.expected) for t in trials(operation, dtype, seed=5)]


def admitted(reference, inputs, weights=()):
    operation = Operation("toy", inputs, reference, {}, {}, weights=weights)
    return admit(
        cases_of(operation), lambda t: reference64(operation, t), torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_mutant_of_a_common_operation_is_refused(operation):
    for dtype in operation.dtypes:
        result = admit(
            cases_of(operation, dtype),
            lambda t: reference64(operation, t),
            torch.Generator().manual_seed(0),
        )
        assert not result.degenerate
        assert result.survivors == ()
        assert result.insensitive_arguments == ()
        assert result.disclosures == ()


def test_an_identically_zero_problem_is_degenerate():
    def dead(t):
        top = (t["x"] @ t["w"]).amax(1, keepdim=True)
        return top - top.mean(1, keepdim=True)

    result = admitted(dead, drawn(x=normal(32, 64), w=normal(64, 16)), weights=("w",))
    assert result.degenerate
    assert result.insensitive_arguments == ("x", "w")
    assert "degenerate" in [item.code for item in result.disclosures]


def test_a_problem_saturated_to_its_bias_is_degenerate():
    result = admitted(
        lambda t: 0 * t["x"].sum() + torch.ones(64, 4, dtype=t["x"].dtype), drawn(x=normal(64, 4))
    )
    assert result.degenerate


def test_an_argument_without_effect_is_named():
    result = admitted(
        lambda t: torch.tanh(t["x"]) + 0 * t["y"], drawn(x=normal(32, 64), y=normal(32, 64))
    )
    assert result.insensitive_arguments == ("y",)
    assert not result.degenerate


def test_a_mutant_the_gate_cannot_tell_is_named():
    def nearly_deaf(t):
        return t["x"] * 3 + torch.tanh(t["x"]) * 1e-9

    result = admitted(nearly_deaf, drawn(x=uniform(32, 64)))
    assert "a straight line of x" in result.survivors
    assert [item.code for item in result.disclosures] == ["weakly_checkable"]


def test_an_affine_operation_is_not_its_own_mutant():
    result = admitted(lambda t: 2 * t["x"] + t["b"], drawn(x=normal(32, 64), b=zeros(64)), ("b",))
    assert result.survivors == ()


def test_a_lone_loss_is_not_taken_for_a_constant():
    result = admitted(
        lambda t: (t["x"] - t["y"]).square().mean(), drawn(x=normal(16, 32), y=normal(16, 32))
    )
    assert not result.degenerate
    assert result.survivors == ()


def test_mutants_cover_what_the_gate_must_refuse():
    operation = next(op for op in OPERATIONS if op.name == "linear and relu")
    case = cases_of(operation)[0]
    names = [mutant.name for mutant in mutants(case, lambda t: reference64(operation, t))]
    for expected in (
        "all zeros",
        "one constant",
        "rows off by one",
        "b taken as 0",
        "x without the last tenth of dimension 1",
        "inputs rounded to a narrower type",
    ):
        assert expected in names


def test_inputs_that_hold_each_number_twice_are_told():
    def turned(t):
        first, second = t["x"].chunk(2, -1)
        return t["x"] * t["cos"] + torch.cat([-second, first], -1) * 0.5

    halves = drawn(x=normal(32, 16), half=normal(32, 8))

    def inputs(*args, **kwargs):
        tensors = halves(*args, **kwargs)
        half = tensors.pop("half")
        return {**tensors, "cos": torch.cat([half, half], -1)}

    (told,) = admitted(turned, inputs).disclosures
    assert told.code == "inputs_repeat"
    assert told.message.startswith("cos: ")
