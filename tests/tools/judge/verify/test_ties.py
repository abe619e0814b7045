"""Among equal values any may be chosen, and what is computed from the choice is held to the same choice."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.verify.compare.compare import compare

_NAMED = "return share, place, torch.bincount(place.reshape(-1), minlength=8)"
PROBLEM = """\
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x, value):
        share, place = torch.topk(x, 2, -1)
        RETURN

def get_inputs():
    return [torch.randn(6, 8), torch.randn(6, 8)]
def get_init_inputs():
    return []
"""


def trial(tmp_path, returned):
    """The call with an input in which all of a row are equal, and the two inputs."""
    file = tmp_path / "problem.py"
    file.write_text(PROBLEM.replace("RETURN", returned))
    oracle = Oracle(load_problem(ProblemSpec(path=str(file))), "cpu", nullcontext)
    draw = torch.Generator().manual_seed(5)
    x, value = (torch.randn(6, 8, generator=draw) for _ in range(2))
    x[2] = 1.0
    x[4, 3:6] = 9.0
    made = trial_on(oracle, "default", "edges", ((x, value), {}), {}, draw)
    return made.compared, x, value


def chosen(x, *, last=False):
    """What is as right: the first two, or the last two, of the largest of each row."""
    source = x.flip(-1) if last else x
    order = torch.sort(source, descending=True, stable=True).indices[:, :2]
    place = 7 - order if last else order
    return x.gather(-1, place), place


def passed(result, compared):
    return compare(result, compared, input_set="default", probe="edges").passed


@pytest.mark.parametrize("last", [False, True])
def test_counts_are_held_to_the_choice_that_is_returned_beside_them(tmp_path, last):
    compared, x, _ = trial(tmp_path, _NAMED)
    share, place = chosen(x, last=last)
    count = torch.bincount(place.reshape(-1), minlength=8)
    assert passed((share, place, count), compared)
    assert not passed((share, place, count.flip(0)), compared)
    assert not passed((share, place, chosen_counts(x, last=not last)), compared)


def chosen_counts(x, *, last):
    return torch.bincount(chosen(x, last=last)[1].reshape(-1), minlength=8)


def test_a_choice_of_any_kind_is_right_where_it_is_returned_and_none_that_names_a_smaller_value(
    tmp_path,
):
    compared, x, _ = trial(tmp_path, _NAMED)
    share, place = chosen(x)
    place[2] = torch.tensor([6, 1])
    count = torch.bincount(place.reshape(-1), minlength=8)
    assert passed((share, place, count), compared)
    for wrong in ([6, 6], [6, 8]):
        place[2] = torch.tensor(wrong)
        count = torch.bincount(place.reshape(-1), minlength=8)[:8]
        assert not passed((share, place, count), compared)
    place = chosen(x)[1]
    place[0, 1] = x[0].argmin()
    count = torch.bincount(place.reshape(-1), minlength=8)
    assert not passed((share, place, count), compared)


def test_values_are_taken_where_the_choice_says(tmp_path):
    compared, x, value = trial(tmp_path, "return place, (100 * value).long().gather(-1, place)")
    value = (100 * value).long()
    for last in (False, True):
        place = chosen(x, last=last)[1]
        assert passed((place, value.gather(-1, place)), compared)
    assert not passed((place, value.gather(-1, place.flip(0))), compared)
    assert not passed((place, value.gather(-1, chosen(x)[1])), compared)


def test_where_no_index_is_returned_the_first_and_the_last_of_equal_values_are_right(tmp_path):
    compared, x, _ = trial(tmp_path, "return torch.bincount(place.reshape(-1), minlength=8)")
    assert passed(chosen_counts(x, last=False), compared)
    assert passed(chosen_counts(x, last=True), compared)
    assert not passed(chosen_counts(x, last=True) + torch.eye(8, dtype=torch.int64)[0], compared)
    assert not passed(chosen_counts(x + torch.arange(8), last=True), compared)


def test_an_order_of_the_chosen_is_held_to_the_choice(tmp_path):
    compared, x, _ = trial(tmp_path, "return place, place.reshape(-1).argsort()")
    place = chosen(x)[1]
    flat = place.reshape(-1)
    assert passed((place, flat.argsort(stable=True)), compared)
    backwards = 11 - flat.flip(0).argsort(stable=True)
    assert bool((flat[backwards].diff() >= 0).all())
    assert passed((place, backwards), compared)
    assert not passed((place, backwards.flip(0)), compared)
