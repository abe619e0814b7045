"""Columns far smaller than their neighbours: held to their own size, and no right answer is refused."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.verify.compare.within_budget.slices import (
    dimensions,
    slice_norms,
    wide_slice,
)


def boxes(dtype=torch.float32):
    draw = torch.Generator().manual_seed(3)
    made = torch.rand(128, 16, generator=draw, dtype=torch.float64)
    made[:, :4] *= 640
    return made, made.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_another_rounding_of_small_columns_is_right(dtype):
    right, eager = boxes(dtype)
    ulp = torch.finfo(dtype).eps
    other = (right * (1 + ulp * (torch.rand_like(right) - 0.5))).to(dtype)
    assert wide_slice(other, eager, right) is None


def test_small_columns_in_steps_are_wrong_and_named_by_their_place():
    right, eager = boxes()
    steps = eager.clone()
    steps[:, 9] = (steps[:, 9] * 8192).floor() / 8192
    found = wide_slice(steps, eager, right)
    assert found is not None
    assert (found.dim, found.at) == (1, 9)
    assert "index 9 of dimension 1" in found.message


def test_the_last_bit_of_a_sum_with_the_large_ones_is_no_fault_of_a_small_column():
    right, eager = boxes()
    through = (eager + 640) - 640
    through[:, :4] = eager[:, :4]
    assert wide_slice(through / 2 + eager / 2, eager, right) is None


def test_noise_of_the_inputs_excuses_a_column_that_they_move_as_far():
    right, eager = boxes()
    off = eager + 1e-4 * (torch.arange(16) == 9)
    assert wide_slice(off, eager, right) is not None
    assert wide_slice(off, eager, right, slice_norms(off.double() - right)) is None


def beside_unknown(columns=8):
    """Columns that eager knows, and some that it does not know to a tenth."""
    draw = torch.Generator().manual_seed(4)
    right = torch.rand(64, 24, generator=draw, dtype=torch.float64)
    eager = right.float()
    eager[:, :columns] += 0.1 * torch.randn(64, columns, generator=draw)
    return right, eager


def test_columns_that_eager_knows_far_better_are_held_to_that():
    right, eager = beside_unknown()
    off = right.float()
    off[:, 20] *= 1.001
    found = wide_slice(off, eager, right)
    assert found is not None
    assert (found.dim, found.at) == (1, 20)
    assert "known far better" in found.message


def test_another_rounding_beside_columns_that_nobody_knows_is_right():
    right, eager = beside_unknown()
    other = (right * (1 + 2.0**-23 * (torch.rand_like(right) - 0.5))).float()
    other[:, :8] += 0.1 * torch.randn(64, 8)
    assert wide_slice(other, eager, right) is None


def test_columns_of_one_size_are_left_to_the_gate():
    right = torch.rand(128, 16, dtype=torch.float64)
    assert wide_slice(torch.zeros(128, 16), right.float(), right) is None


def test_few_elements_vectors_and_very_large_outputs_have_no_slices():
    assert dimensions((64,)) == ()
    assert dimensions((8, 16)) == ()
    assert dimensions((1 << 13, 1 << 12)) == ()
    assert dimensions((128, 16)) == (1,)
    assert dimensions((4, 64, 64)) == (0, 1, 2)


def test_where_the_right_answer_is_infinite_nothing_is_compared():
    right, eager = boxes()
    right[:, 9], eager[:, 9] = torch.inf, torch.inf
    assert wide_slice(eager, eager, right) is None


def test_two_steps_of_the_size_of_the_whole_may_round_on_the_way_to_a_small_column():
    right = torch.linspace(-1, 1, 128, dtype=torch.float64)[:, None].repeat(1, 16).tanh()
    right[:, 9] /= 40
    # tanh(v) as (1 - e) / (1 + e): half of the last bit of e, which is close to one, stays.
    e = torch.exp(-2 * right.atanh().abs()).float()
    last_bit = 2.0**-24 * (1 - 2 * (torch.arange(128) % 2))[:, None]
    made = ((1 - (e + last_bit)) / (1 + e)) * right.sign()
    assert wide_slice(made.float(), right.float(), right) is None
    assert wide_slice((right + 4 * last_bit).float(), right.float(), right) is not None
