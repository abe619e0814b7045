"""Results that are zero but for rounding."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.verify.compare.compare import Expected, compare


def lost(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ((p + y) - p) - y


P = torch.randn(256, generator=torch.Generator().manual_seed(0))
Y = 1e-3 * torch.randn(256, generator=torch.Generator().manual_seed(1))
OWN, EXACT = lost(P, Y), lost(P.double(), Y.double())


def told(got: torch.Tensor, probe: str = "natural", name: str | None = None) -> list[str]:
    wrapped = [value if name is None else {name: value} for value in (got, OWN, EXACT)]
    expected = Expected(wrapped[1], wrapped[2], {})
    result = compare(wrapped[0], expected, input_set="default", probe=probe)
    assert result.passed
    return [item.code for item in result.disclosures]


def test_zeros_in_the_place_of_what_was_lost_are_told() -> None:
    assert told(torch.zeros_like(OWN)) == ["rounding_alone"]


def test_the_same_bits_are_not() -> None:
    assert told(OWN.clone()) == []


def test_special_values_may_leave_rounding_alone() -> None:
    assert told(torch.zeros_like(OWN), probe="zeros") == []


def test_a_gradient_that_is_zero_in_exact_numbers_is_not_told() -> None:
    assert told(torch.zeros_like(OWN), name="gradients") == []


@pytest.mark.parametrize("exact", [0.1, 1.0])
def test_results_of_which_float64_knows_something_are_not_told(exact: float) -> None:
    own = torch.full((64,), exact)
    result = compare(own, Expected(own, own.double(), {}), input_set="default", probe="natural")
    assert result.disclosures == ()
