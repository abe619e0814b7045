"""What torch computes beside the kernels is held against all of the reference's steps, not its longest one alone."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.contribution.left_to_kernels import require_part_of_the_work
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.cost.eager import eager_rows

IDS = torch.randint(0, 50, (1000,))


def rows(function):
    return eager_rows(function, (IDS,), {})


def places(ids):
    return torch.unique(ids, return_inverse=True)[1]


def by_steps(ids):
    values, order = torch.sort(ids)
    marks = torch.ne(values, values.roll(1))
    return torch.empty_like(ids).scatter(0, order, marks.cumsum(0))


def test_who_has_torch_sort_and_finds_the_distinct_ones_in_a_kernel_did_a_part():
    require_part_of_the_work(rows(torch.sort), rows(places), ())


def by_runs(ids):
    values, order = torch.sort(ids)
    runs = torch.unique_consecutive(values, return_inverse=True)[1]
    return torch.empty_like(ids).scatter(0, order, runs)


@pytest.mark.parametrize("beside", [places, by_steps, by_runs])
def test_who_has_torch_find_the_distinct_ones_did_none(beside):
    with pytest.raises(Rejected, match="nothing of it is left"):
        require_part_of_the_work(rows(beside), rows(places), ())


def taken(ids):
    return torch.masked_select(ids, ids > 10)


def taken_by_steps(ids):
    mask = ids > 10
    at = torch.where(mask, mask.cumsum(0) - 1, 0)
    return torch.empty_like(ids).scatter(0, at, ids)


def test_who_has_torch_count_how_many_are_taken_and_takes_them_in_a_kernel_did_a_part():
    require_part_of_the_work(rows(lambda ids: (ids > 10).sum()), rows(taken), ())


@pytest.mark.parametrize("beside", [taken, taken_by_steps])
def test_who_has_torch_take_them_did_none(beside):
    with pytest.raises(Rejected, match="nothing of it is left"):
        require_part_of_the_work(rows(beside), rows(taken), ())
