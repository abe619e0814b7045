"""Which bits of a state are changed to see whether something is kept in them, and what counts as a difference."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.verify.beyond.own_state import more_differs, nudged_bits
from kernelagent.tools.judge.verify.side_effects import left_alone

ONE = torch.ones(2)
OTHER = torch.tensor([1.0, 1.0 + 2**-23])
NO = torch.tensor([False, False])


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [(torch.float16, 3), (torch.bfloat16, 3), (torch.float32, 6), (torch.float64, 12)],
)
def test_numbers_change_in_their_last_bits_and_stay_near(dtype: torch.dtype, bits: int):
    state = torch.full((1000,), 1.5, dtype=dtype)
    nudged = nudged_bits(state)
    assert 200 < int((nudged != state).sum()) < 800
    assert bool(((nudged - state).abs() < 2**bits * torch.finfo(dtype).eps).all())


def test_zeros_change_their_sign_alone():
    nudged = nudged_bits(torch.zeros(1000))
    assert 200 < int(nudged.signbit().sum()) < 800
    assert not nudged.any()


def test_what_is_below_the_normal_numbers_becomes_any_such_number():
    state = torch.full((1000,), 2.0**-149)
    nudged = nudged_bits(state)
    assert bool((nudged.abs() < torch.finfo(torch.float32).smallest_normal).all())
    assert float(nudged.max()) > 2.0**-130


def test_what_is_not_finite_stays():
    state = torch.tensor([torch.inf, -torch.inf, torch.nan])
    assert torch.equal(nudged_bits(state).view(torch.int32), state.view(torch.int32))


@pytest.mark.parametrize(
    ("moved", "dependent", "differs"),
    [
        (ONE, None, True),
        (ONE, NO, True),
        (OTHER, NO, False),
        (ONE, torch.tensor([True, False]), True),
        (ONE, torch.tensor([False, True]), False),
    ],
    ids=["as it was", "as it was, from others", "moved", "another depends", "depends"],
)
def test_an_element_that_the_reference_computes_from_other_places_must_be_as_it_was(
    moved, dependent, differs
):
    assert more_differs(ONE, OTHER, ONE.double(), moved.double(), dependent, None) is differs


@pytest.mark.parametrize(
    ("nudged_at", "differs"), [(None, False), (NO, True), (torch.tensor([True, False]), False)]
)
def test_signs_of_zeros_count_in_the_state_where_nothing_was_changed(nudged_at, differs):
    own, nudged, right = torch.zeros(2), torch.tensor([-0.0, 0.0]), torch.zeros(2).double()
    assert more_differs(own, nudged, right, right, None, nudged_at) is differs


def test_an_average_that_only_rounding_keeps_in_its_place_is_not_left_alone():
    mean, near = torch.tensor([1.0]), torch.tensor([1.0 + 2**-22])
    moved = mean + 0.1 * (near - mean)
    exact = mean.double() + 0.1 * (near.double() - mean.double())
    assert torch.equal(moved, mean)
    assert not left_alone(mean, moved, exact)
    assert left_alone(mean, moved, mean.double())
    unknown = torch.tensor([torch.nan])
    assert left_alone(unknown, unknown, unknown.double())
