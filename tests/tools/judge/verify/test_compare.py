from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.judge.verify.compare.compare import Expected, compare, leaves, scales_of
from kernelagent.tools.judge.verify.compare.exact import same_gathered_values
from kernelagent.tools.judge.verify.compare.regions import Noise, NoiseSources
from kernelagent.tools.judge.verify.diagnosis.diagnosis import diagnose


def expected(eager, oracle=None, **more):
    oracle = eager if oracle is None else oracle
    return Expected(eager, oracle, scales_of(oracle), **more)


def judged(candidate, wanted, **more):
    return compare(candidate, wanted, input_set="default", probe="natural", **more)


def code(candidate, wanted, **more):
    reason = judged(candidate, wanted, **more).reason
    return reason.code if reason is not None else None


INTEGERS = (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)


@given(
    st.lists(st.integers(0, 5), max_size=3),
    st.sampled_from([*INTEGERS, torch.float32, torch.bfloat16, torch.float16, torch.float64]),
)
def test_a_copy_of_the_right_answer_passes(shape, dtype):
    answer = (torch.arange(math.prod(shape)) % 3).reshape(shape).to(dtype)
    wanted = expected(answer, answer.double() if dtype.is_floating_point else answer)
    assert judged(answer.clone(), wanted).passed


@given(st.sampled_from(INTEGERS), st.integers(0, 11))
def test_one_wrong_integer_is_refused_with_its_place(dtype, place):
    answer = (torch.arange(12) % 2).reshape(3, 4).to(dtype)
    wrong = answer.clone()
    wrong.view(-1)[place] = 1 - int(answer.reshape(-1)[place])
    result = judged(wrong, expected(answer))
    assert result.reason.code == "wrong_output"
    assert result.reason.detail["index"] == [place // 4, place % 4]
    assert result.reason.detail["share_wrong"] == pytest.approx(1 / 12)


def test_every_form_of_the_answer_has_its_own_code():
    answer = torch.ones(4, 3)
    wanted = expected({"y": answer})
    assert code({"y": answer}, wanted) is None
    assert code({"y": torch.ones(3, 4)}, wanted) == "wrong_shape"
    assert code({"y": torch.ones(1)}, wanted) == "wrong_shape"
    assert code({"y": answer.half()}, wanted) == "wrong_dtype"
    assert code({"y": answer}, wanted, devices={"output['y']": "cuda"}) == "wrong_device"
    assert code({"z": answer}, wanted) == "wrong_structure"
    assert code([answer], wanted) == "wrong_structure"
    assert code({"y": None}, wanted) == "wrong_structure"
    assert code({"y": answer.fill_(1.0) * math.nan}, wanted) == "nonfinite"
    assert code({"y": answer * 1.01}, wanted) == "wrong_output"


def test_a_missing_item_of_a_tuple_is_named():
    result = judged((torch.ones(1),), expected((torch.ones(1), torch.ones(1))))
    assert result.reason.message == "output has 1 items; the reference returns 2"


def test_the_first_wrong_output_decides_and_all_are_reported():
    answer = (torch.ones(3), torch.ones(3), torch.ones(3))
    result = judged((torch.ones(3), torch.zeros(3), torch.zeros(3)), expected(answer))
    assert [case.passed for case in result.cases] == [True, False, False]
    assert result.failure.output == "output[1]"


def test_plain_values_are_compared_too():
    wanted = expected({"n": 3, "s": "mean", "loss": 0.5, "none": None})
    right = {"n": 3, "s": "mean", "loss": 0.5 + 1e-9, "none": None}
    assert judged(right, wanted).passed
    assert code({**right, "n": 4}, wanted) == "wrong_output"
    assert code({**right, "loss": 0.51}, wanted) == "wrong_output"
    assert code({**right, "n": 3.0}, wanted) == "wrong_structure"


def test_another_layout_is_said_and_accepted():
    answer = torch.randn(4, 6)
    result = judged(answer.T.contiguous().T, expected(answer, answer.double()))
    assert result.passed
    assert [item.code for item in result.disclosures] == ["layout_differs"]


def test_an_integer_that_rounding_decides_may_be_eagers_or_the_oracles():
    eager, oracle = torch.tensor([1, 5]), torch.tensor([2, 5])
    for right in (eager, oracle):
        assert judged(right.clone(), expected(eager, oracle)).passed
    assert not judged(torch.tensor([3, 5]), expected(eager, oracle)).passed


@pytest.mark.parametrize("keepdim", [False, True])
def test_with_open_ties_any_index_of_an_equal_value_is_right(keepdim):
    values = torch.tensor([[3.0, 7.0, 7.0], [1.0, 0.0, 1.0]])
    first = values.argmax(-1, keepdim=keepdim)
    last = torch.tensor([2, 2]).reshape(first.shape)
    rule = same_gathered_values({"output": values}, dim=-1)
    assert judged(last, expected(first, index_ok=rule)).passed
    assert not judged(last, expected(first)).passed
    assert not judged(torch.zeros_like(first), expected(first, index_ok=rule)).passed
    assert not judged(torch.full_like(first, 9), expected(first, index_ok=rule)).passed


def test_measured_noise_is_asked_for_only_after_a_refusal_and_disclosed():
    oracle = torch.randn(64, 64, dtype=torch.float64)
    asked = []

    def measure(name, enough=None):
        asked.append(name)
        noise = Noise(torch.full((9,), 1e-6), torch.full((9,), 1e-6))
        return NoiseSources(noise, Noise(torch.zeros(9), torch.zeros(9)))

    wanted = expected(oracle.float(), oracle, measure_noise=measure)
    assert judged(oracle.float(), wanted).disclosures == ()
    assert asked == []
    rough = (oracle + 2e-6 * torch.randn(64, 64, dtype=torch.float64)).float()
    result = judged(rough, wanted)
    assert asked == ["output"]
    assert [item.code for item in result.disclosures] == ["measured_conditioning"]
    assert not judged((oracle * 1.001).float(), wanted).passed


def test_leaves_are_named_by_their_place():
    nest = {"a": [1, (2, None)]}
    assert [name for name, _ in leaves(nest)] == [
        "output['a'][0]",
        "output['a'][1][0]",
        "output['a'][1][1]",
    ]


def test_imaginary_parts_that_are_a_little_too_large_are_told_of_as_a_factor_is():
    right = torch.randn(32, 64, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
    eager = right.to(torch.complex64)
    # As products in TF32 err, so that the budget is wide.
    eager = eager * (1 + 2e-4 * torch.randn(32, 64, generator=torch.Generator().manual_seed(2)))
    wanted = expected(eager, right, by_slices=True)
    assert judged(eager.clone(), wanted).passed
    off = torch.complex(right.real.float(), right.imag.float() * 1.0008)
    assert "errs_to_one_side" in {told.code for told in judged(off, wanted).disclosures}
    assert not judged(right.to(torch.complex64), wanted).disclosures


class Odd:
    """Equal to nothing, and written alike."""

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "Odd()"


@pytest.mark.parametrize(
    ("got", "wanted"),
    [(Odd(), Odd()), ("a" * 200 + "b", "a" * 200 + "c"), ("a" * 200, "a" * 201), (1, 2)],
)
def test_values_that_differ_are_never_told_with_the_same_text_twice(
    got: object, wanted: object
) -> None:
    result = compare(got, Expected(wanted, wanted, {}), input_set="default", probe="natural")
    assert result.reason is not None
    before, _, after = result.reason.message.partition("; the reference")
    assert "both are written" in before or before.removeprefix("output is ") != after


def test_what_rounding_the_steps_explains_is_accepted_where_single_elements_are_held_to_their_own_size():
    right = torch.tensor([[1e4, 0.0], [0.0, 2.0]], dtype=torch.float64)
    spread = torch.tensor([[1e-3, 1e-6], [0.0, 1e-7]])
    asked = []

    def measure_steps(name):
        asked.append(name)
        return spread

    wanted = Expected(
        right.float(), right, {"output": 1e-12}, moved=right, measure_steps=measure_steps
    )
    assert code(right.float(), wanted) is None
    assert asked == []
    rounded = right.float()
    rounded[0, 1] = 5e-6
    assert code(rounded, wanted) is None
    assert asked
    wrong = rounded.clone()
    wrong[1, 0] = 5e-6
    result = judged(wrong, wanted)
    assert result.reason.code == "wrong_output"
    assert "[1, 0] is 5e-06 in the place of 0" in result.reason.message
    assert "furthest at [1, 0]: got 5e-06, expected 0" in diagnose(result.failure).sentence
