"""What a result is besides its values."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch

from kernelagent.tools.calls.result_form import difference, form_of

Pair = namedtuple("Pair", "a b")
ONE = torch.ones(2)
with torch.inference_mode():
    INFERENCE = torch.ones(2)


class Own(dict):
    pass


@pytest.mark.parametrize(
    ("got", "wanted", "said"),
    [
        (torch.nn.Parameter(ONE, requires_grad=False), ONE, "output is an nn.Parameter"),
        (ONE.clone().requires_grad_(), ONE, "requires a gradient"),
        ({"b": ONE, "a": ONE}, {"a": ONE, "b": ONE}, "with the keys 'b', 'a'"),
        (Own(a=ONE), {"a": ONE}, "a Own (a class of its own)"),
        (OrderedDict(a=ONE), {"a": ONE}, "a OrderedDict (a class of its own)"),
        ([Pair(ONE, ONE)], [(ONE, ONE)], r"output[0] is a namedtuple of a, b"),
        (torch.Size([1]), (1,), "a Size (a class of its own)"),
    ],
)
def test_another_form_is_refused_and_named(got, wanted, said):
    found = difference(form_of(got), form_of(wanted), inference=False)
    assert found is not None
    assert found.refused
    assert said in found.sentence


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        ({"a": ONE}, Own(a=ONE)),
        ((ONE, ONE), Pair(ONE, ONE)),
        ((ONE, ONE), torch.topk(ONE, 1)),
    ],
)
def test_a_class_that_a_candidate_cannot_know_is_told(got, wanted):
    found = difference(form_of(got), form_of(wanted), inference=False)
    assert found is not None
    assert not found.refused


@pytest.mark.parametrize(
    ("got", "wanted", "told"),
    [
        (torch.ones(9)[1:], torch.ones(8), True),
        (torch.ones(12)[4:], torch.ones(8), False),
        (torch.ones(9)[1:], torch.zeros(11)[3:], False),
        (torch.ones(9)[1:1], torch.ones(0), False),
        ({"a": torch.ones(3, dtype=torch.bfloat16)[1:]}, {"a": torch.ones(2)}, True),
    ],
)
def test_a_result_that_begins_at_an_odd_place_is_told_unless_the_references_does(got, wanted, told):
    found = difference(form_of(got), form_of(wanted), inference=False)
    assert (found is not None and found.disclosure == "result_unaligned") is told


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        (torch.ones(4, dtype=torch.complex64).conj().imag, torch.ones(4)),
        (torch.ones(4, dtype=torch.complex64).conj(), torch.ones(4, dtype=torch.complex64)),
        (torch.tensor([0, 1, 255], dtype=torch.uint8).view(torch.bool), torch.ones(3) > 0),
    ],
    ids=["negated lazily", "conjugated lazily", "True is the byte 255"],
)
def test_memory_that_holds_other_bytes_than_torch_shows_is_refused_unless_the_references_does(
    got, wanted
):
    found = difference(form_of(got), form_of(wanted), inference=False)
    assert found is not None
    assert found.refused
    assert difference(form_of(got), form_of(got), inference=False) is None
    assert difference(form_of(wanted), form_of(got), inference=False) is None


class Odd(int):
    pass


class Word(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        ((ONE, Odd(3)), (ONE, 3)),
        ({"a": [Word("b")]}, {"a": ["b"]}),
        ({Word("a"): ONE}, {"a": ONE}),
    ],
)
def test_a_number_or_text_of_a_class_of_its_own_is_refused(got, wanted):
    found = difference(form_of(got), form_of(wanted), inference=False)
    assert found is not None
    assert found.refused
    assert "class of its own" in found.sentence


def test_a_number_of_numpy_is_told_and_a_class_of_the_references_own_is_no_fault():
    told = difference(form_of((ONE, np.float64(0.5))), form_of((ONE, 0.5)), inference=False)
    assert told is not None
    assert (told.refused, told.disclosure) == (False, "container_differs")
    other = difference(form_of((ONE, 3)), form_of((ONE, Odd(3))), inference=False)
    assert other is not None
    assert not other.refused
    assert difference(form_of((ONE, True, 3)), form_of((ONE, 1, 3)), inference=False) is None


def test_a_result_of_inference_mode_is_told_unless_the_call_was_made_in_it():
    found = difference(form_of(INFERENCE), form_of(ONE), inference=False)
    assert found is not None
    assert (found.refused, found.disclosure) == (False, "inference_result")
    assert difference(form_of(INFERENCE), form_of(ONE), inference=True) is None


def test_the_same_form_is_no_difference():
    for value in ((ONE, [ONE, {"a": None}]), Pair(ONE, ONE), torch.nn.Parameter(ONE), Own(a=ONE)):
        assert difference(form_of(value), form_of(value), inference=False) is None
    assert difference(form_of(Pair(ONE, ONE)), form_of(Pair(ONE, 3)), inference=False) is None
    assert difference(form_of(INFERENCE), form_of(ONE), inference=True) is None
    parameter = torch.nn.Parameter(ONE)
    assert difference(form_of(ONE), form_of(parameter), inference=False) is None
