from __future__ import annotations

from contextlib import nullcontext
from itertools import count

import pytest
import torch

from benchmarks.gate_cases import OPERATIONS, Operation, drawn, normal, uniform, zeros
from benchmarks.gate_table import reference64, trials
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.admission.admit import TimeForAdmission, admission_of
from kernelagent.tools.judge.admission.checkable import admit
from kernelagent.tools.judge.admission.mutants import Checked, mutants
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import input_sources


def cases_of(operation, dtype=torch.float32):
    return [Checked(t.probe, t.tensors, t.expected) for t in trials(operation, dtype, seed=5)]


def admitted(reference, inputs, weights=()):
    operation = Operation("toy", inputs, reference, {}, {}, weights=weights)
    return admit(
        cases_of(operation), lambda t: reference64(operation, t), torch.Generator().manual_seed(0)
    )


@pytest.mark.long
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


@pytest.mark.long
def test_an_identically_zero_problem_is_degenerate():
    def dead(t):
        top = (t["x"] @ t["w"]).amax(1, keepdim=True)
        return top - top.mean(1, keepdim=True)

    result = admitted(dead, drawn(x=normal(32, 64), w=normal(64, 16)), weights=("w",))
    assert result.degenerate
    assert result.insensitive_arguments == ("x", "w")
    assert "degenerate" in [item.code for item in result.disclosures]


@pytest.mark.long
def test_a_problem_saturated_to_its_bias_is_degenerate():
    result = admitted(
        lambda t: 0 * t["x"].sum() + torch.ones(64, 4, dtype=t["x"].dtype), drawn(x=normal(64, 4))
    )
    assert result.degenerate


@pytest.mark.long
def test_an_argument_without_effect_is_named():
    result = admitted(
        lambda t: torch.tanh(t["x"]) + 0 * t["y"], drawn(x=normal(32, 64), y=normal(32, 64))
    )
    assert result.insensitive_arguments == ("y",)
    assert not result.degenerate


@pytest.mark.long
def test_a_weight_of_one_element_that_counts_is_not_named_in_a_rough_type():
    def scaled(t):
        return torch.where(t["x"] > 0, torch.nn.functional.softplus(t["alpha"]) * t["x"], t["x"])

    inputs = drawn(x=normal(32, 64), alpha=lambda _: torch.tensor([0.8]))
    operation = Operation("toy", inputs, scaled, {}, {}, weights=("alpha",))
    result = admit(
        cases_of(operation, torch.bfloat16),
        lambda t: reference64(operation, t),
        torch.Generator().manual_seed(0),
    )
    assert result.insensitive_arguments == result.faint_arguments == ()


@pytest.mark.long
def test_an_argument_that_moves_the_answer_by_less_than_rounding_is_not_said_to_have_no_effect():
    result = admitted(
        lambda t: t["x"] * 2 + torch.tanh(t["y"]) * 1e-9,
        drawn(x=normal(32, 64), y=normal(32, 64)),
    )
    assert result.insensitive_arguments == ()
    assert result.faint_arguments == ("y",)
    assert "faint_argument" in [item.code for item in result.disclosures]


def test_a_state_of_zeros_that_counts_is_not_named():
    result = admitted(
        lambda t: t["x"] * 2 + t["state"],
        drawn(x=normal(16, 32), state=zeros(16, 32)),
        weights=("state",),
    )
    assert result.insensitive_arguments == ()


def test_an_input_of_zeros_and_infinities_is_tried_like_others():
    bias = torch.zeros(16, 32)
    bias[:, 20:] = -torch.inf
    result = admitted(
        lambda t: torch.softmax(t["x"] + t["bias"], -1),
        drawn(x=normal(16, 32), bias=lambda _: bias.clone()),
        weights=("bias",),
    )
    assert not result.degenerate


@pytest.mark.long
def test_inputs_of_eight_bit_floats_are_tried_like_others():
    def halved(t):
        wide = t["x"] if t["x"].dtype == torch.float64 else t["x"].float()
        return wide / 2

    operation = Operation("toy", drawn(x=normal(32, 64), y=normal(32, 64)), halved, {}, {})
    result = admit(
        cases_of(operation, torch.float8_e4m3fn),
        lambda t: reference64(operation, t),
        torch.Generator().manual_seed(0),
    )
    assert result.insensitive_arguments == ("y",)


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


def late_after(times):
    asked = count()
    return lambda: next(asked) >= times


def deaf_to_u(t):
    return torch.tanh(t["x"]) * t["w"] + 0 * t["u"]


@pytest.mark.long
def test_a_weight_for_which_there_was_no_time_is_named():
    operation = Operation(
        "toy",
        drawn(x=normal(32, 64), w=normal(64), u=normal(64)),
        deaf_to_u,
        {},
        {},
        weights=("w", "u"),
    )
    cases = cases_of(operation)
    generator = torch.Generator().manual_seed(0)

    def reference(t):
        return reference64(operation, t)

    whole = admit(cases, reference, generator)
    assert whole.insensitive_arguments == ("u",)
    assert whole.not_tried == ()
    cut = admit(cases, reference, generator, late=late_after(0))
    assert cut.insensitive_arguments == (), "nothing is said of what was not tried"
    assert cut.not_tried == ("x", "w", "u")
    (told,) = cut.disclosures
    assert told.code == "mutants_not_tried"
    assert "for 3 of 3 inputs and weights" in told.message
    assert told.message.endswith(": x, w, u")


@pytest.mark.long
def test_a_constant_is_tried_however_late_it_is():
    operation = Operation("toy", drawn(x=normal(64, 4)), lambda t: 0 * t["x"] + 1, {}, {})
    cut = admit(
        cases_of(operation),
        lambda t: reference64(operation, t),
        torch.Generator().manual_seed(0),
        late=late_after(0),
    )
    assert cut.degenerate
    assert [item.code for item in cut.disclosures] == ["degenerate", "mutants_not_tried"]


def test_a_tensor_of_which_a_part_was_tried_counts_as_not_tried():
    operation = Operation("toy", drawn(x=normal(32, 64)), lambda t: torch.tanh(t["x"]), {}, {})
    cut = admit(
        cases_of(operation),
        lambda t: reference64(operation, t),
        torch.Generator().manual_seed(0),
        late=late_after(3),
    )
    assert cut.not_tried == ("x",)


LAYERS = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.blocks = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 16))

    def forward(self, x):
        return self.blocks(torch.relu(self.first(x)))


def get_inputs():
    return [torch.randn(8, 16)]


def get_init_inputs():
    return []
"""


def opened(folder, text):
    path = folder / "problem.py"
    path.write_text(text)
    problem = load_problem(ProblemSpec(path=str(path)))
    oracle = Oracle(problem, "cpu", nullcontext)
    (source,) = input_sources(problem, oracle.module, "cpu", nullcontext, may_shrink=True)
    return oracle, source


@pytest.mark.long
def test_without_time_a_problem_is_admitted_with_all_that_was_left_out(tmp_path):
    oracle, source = opened(tmp_path, LAYERS)
    whole, _ = admission_of(oracle, source, time=TimeForAdmission())
    assert whole.disclosures == ()
    none, tolerances = admission_of(oracle, source, time=TimeForAdmission(0))
    told = {item.code: item.message for item in none.disclosures}
    assert set(told) == {"mutants_not_tried", "probes_not_tried"}
    assert "for 11 of 11 inputs and weights" in told["mutants_not_tried"], "a counter has none"
    assert told["mutants_not_tried"].endswith(": arguments[0][0], state.*")
    assert "times1e5" in told["probes_not_tried"]
    assert "rowaffine" not in told["probes_not_tried"], "some are tried however late it is"
    assert not none.degenerate
    assert tolerances


MASKED = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, mask):
        return torch.log_softmax(x.masked_fill(mask, float("-inf")), dim=-1)


def get_inputs():
    return [torch.randn(32, 64), torch.rand(32, 64) < 0.3]


def get_init_inputs():
    return []
"""


def test_an_answer_with_infinities_where_masks_say_so_is_no_constant(tmp_path):
    oracle, source = opened(tmp_path, MASKED)
    admitted, _ = admission_of(oracle, source, time=TimeForAdmission())
    assert not admitted.degenerate
    assert admitted.disclosures == ()


def test_of_a_single_case_its_answer_given_again_proves_nothing():
    operation = Operation("toy", drawn(x=normal(32, 64)), lambda t: torch.tanh(t["x"]), {}, {})
    natural = cases_of(operation)[:1]
    alone = admit(natural, lambda t: reference64(operation, t), torch.Generator().manual_seed(0))
    assert not alone.degenerate


def test_weights_below_one_module_are_named_together_only_where_none_of_them_was_tried():
    names = ("fc.weight", "fc.bias", "last.weight", "last.bias")

    def product(t):
        return t["x"] * t["fc.weight"] * t["fc.bias"] * t["last.weight"] * t["last.bias"]

    sizes = {"x": normal(16, 32)} | dict.fromkeys(names, normal(32))
    operation = Operation("toy", drawn(**sizes), product, {}, {}, weights=names)
    late = False

    def reference(t):
        nonlocal late
        late = late or t["fc.bias"].eq(0).all().item()
        return reference64(operation, t)

    cut = admit(cases_of(operation), reference, torch.Generator(), late=lambda: late)
    (told,) = (item for item in cut.disclosures if item.code == "mutants_not_tried")
    assert told.message.endswith(": fc.bias, last.*")
