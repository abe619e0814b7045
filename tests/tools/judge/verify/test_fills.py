"""Numbers that only fill a place, and what is beside them."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.verify.compare.compare import Expected, compare, scales_of
from kernelagent.tools.judge.verify.compare.fills import fills

SCORES = torch.randn(32, 24, generator=torch.Generator().manual_seed(0))
HIDDEN = torch.rand(32, 24, generator=torch.Generator().manual_seed(1)) < 0.3


@pytest.mark.parametrize("fill", [-1e9, 1e30, torch.finfo(torch.float32).min, -65504.0])
def test_a_number_far_beyond_all_others_fills_places(fill: float) -> None:
    found = fills(SCORES.double().masked_fill(HIDDEN, fill))
    assert found is not None
    assert torch.equal(found, HIDDEN)


def test_scores_may_be_added_to_it() -> None:
    found = fills(SCORES.double() + HIDDEN * -1e9)
    assert found is not None
    assert torch.equal(found, HIDDEN)


@pytest.mark.parametrize(
    "values",
    [
        SCORES.double(),
        SCORES.double() * torch.exp2(torch.arange(24.0)),
        SCORES.double().masked_fill(HIDDEN, float("-inf")),
        SCORES.double().masked_fill(HIDDEN, 0.0),
        SCORES.double().masked_fill(HIDDEN, 100.0),
        torch.zeros(64, dtype=torch.float64),
        torch.full((64,), -1e9, dtype=torch.float64),
    ],
    ids=["scores", "every-size", "infinities", "zeros", "near", "nothing", "one-number"],
)
def test_numbers_of_every_size_infinities_and_zeros_do_not(values: torch.Tensor) -> None:
    assert fills(values) is None


def test_what_is_beside_them_is_held_to_its_own_size() -> None:
    own = SCORES.masked_fill(HIDDEN, -1e9)
    right = SCORES.double().masked_fill(HIDDEN, -1e9)
    assert 0.8 < scales_of(right)["output"] < 1.2

    def passes(answer: torch.Tensor) -> bool:
        expected = Expected(own, right, scales_of(right))
        return compare(answer, expected, input_set="default", probe="natural").passed

    assert passes(own.clone())
    assert not passes((1.001 * SCORES).masked_fill(HIDDEN, -1e9))
    assert not passes(SCORES.masked_fill(HIDDEN, -1.001e9))
    assert not passes(own.masked_fill(HIDDEN, float("nan")))
