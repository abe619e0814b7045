"""Errors below the gate that rounding does not make: of heads, of tiles, to one side in TF32, of the largest elements."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.judge.verify.compare.compare import Expected, compare, scales_of
from kernelagent.tools.judge.verify.compare.within_budget.bias import slope_at_an_index
from kernelagent.tools.judge.verify.compare.within_budget.large_elements import large_elements_off
from kernelagent.tools.judge.verify.compare.within_budget.not_by_rounding import not_by_rounding
from kernelagent.tools.judge.verify.compare.within_budget.one_side import errs_to_one_side
from kernelagent.tools.judge.verify.compare.within_budget.shared_by_tiles import shared_by_tiles

HALF = torch.bfloat16
UNIT = 2.0**-8
"""The most that rounding to bfloat16 errs by."""


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rounding(*shape: int, seed: int) -> torch.Tensor:
    """Factors as the rounding of a value to bfloat16 makes them."""
    draw = torch.Generator().manual_seed(seed)
    return 1 + UNIT * (2 * torch.rand(shape, generator=draw, dtype=torch.float64) - 1)


def told(made: torch.Tensor, right: torch.Tensor, *, natural: bool = True, dtype=HALF):
    wanted = Expected(right.to(dtype), right, scales_of(right), by_slices=natural)
    return compare(made.to(dtype), wanted, input_set="default", probe="natural")


def codes(comparison) -> list[str]:
    return [disclosure.code for disclosure in comparison.disclosures]


def in_tiles(rows: int, columns: int, high: int, wide: int, size: float) -> torch.Tensor:
    tile = torch.arange(rows)[:, None] // high + torch.arange(columns)[None, :] // wide
    return 1 + size * (1 - 2 * (tile % 2)).double()


def test_a_factor_of_one_head_is_seen_though_another_head_has_the_opposite_one() -> None:
    right = drawn(2, 4, 64, 32)
    factor = torch.tensor([1.006, 0.994, 1.006, 0.994]).double()[:, None, None]
    made = (right * factor).to(HALF)
    found = slope_at_an_index(made, right.to(HALF), right)
    assert found is not None
    assert (found.dim, found.at) == (1, 0)
    assert found.slope == pytest.approx(0.006, rel=0.1)
    reason = told(right * factor, right).reason
    assert reason is not None
    assert "at index 0 of dimension 1" in reason.message


@given(st.integers(0, 10_000), st.sampled_from(["heads", "rows", "columns", "all", "nothing"]))
def test_a_rounded_value_for_each_head_row_or_column_is_no_factor(seed: int, what: str) -> None:
    right = drawn(4, 64, 32, seed=seed)
    shape = {"heads": (4, 1, 1), "rows": (4, 64, 1), "columns": (1, 1, 32)}.get(what, (4, 64, 32))
    made = right if what == "nothing" else right * rounding(*shape, seed=seed + 1)
    assert slope_at_an_index(made.to(HALF), right.to(HALF), right) is None


@pytest.mark.parametrize(("high", "wide"), [(8, 64), (16, 16), (32, 128)])
@pytest.mark.parametrize("size", [0.005, 0.0065])
def test_tiles_that_err_in_turn_to_either_side_are_refused(
    high: int, wide: int, size: float
) -> None:
    right = drawn(256, 512)
    reason = told(right * in_tiles(256, 512, high, wide, size), right).reason
    assert reason is not None
    assert "factors of their own" in reason.message
    assert high % reason.detail["tile"][0] == wide % reason.detail["tile"][1] == 0


def test_tiles_that_one_rounded_value_each_may_explain_are_told() -> None:
    right = drawn(64, 512)
    comparison = told(right * in_tiles(64, 512, 8, 64, 0.0038), right)
    assert comparison.reason is None
    assert "tiles_err_alike" in codes(comparison)


def test_tiles_are_looked_at_on_natural_inputs_alone() -> None:
    right = drawn(64, 512)
    assert told(right * in_tiles(64, 512, 8, 64, 0.005), right, natural=False).passed


@pytest.mark.long
@given(
    st.sampled_from([(64, 512), (200, 40), (1024, 64)]),
    st.integers(0, 10_000),
    st.sampled_from(["rows", "columns", "both", "all", "nothing"]),
)
def test_values_that_rows_and_columns_share_may_be_rounded(shape, seed: int, what: str) -> None:
    right = drawn(*shape, seed=seed)
    made = right.clone()
    if what in ("rows", "both"):
        made *= rounding(shape[0], 1, seed=seed + 1)
    if what in ("columns", "both"):
        made *= rounding(1, shape[1], seed=seed + 2)
    if what == "all":
        made *= rounding(*shape, seed=seed + 3)
    assert shared_by_tiles(made.to(HALF), right.to(HALF), right) is None


@pytest.mark.long
@given(st.integers(0, 10_000))
def test_the_rounded_scale_of_each_group_of_channels_refuses_nobody(seed: int) -> None:
    """As a group norm may keep it."""
    right = drawn(4, 32, 8, 16, seed=seed)
    made = right.reshape(4, 8, 4, 8, 16) * rounding(4, 8, 1, 1, 1, seed=seed + 1)
    found = shared_by_tiles(made.reshape(right.shape).to(HALF), right.to(HALF), right)
    assert found is None or found.by_one_value


@pytest.mark.long
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_sums_that_nearly_cancel_have_no_tiles(seed: int, columns: int) -> None:
    terms = drawn(24, 64, 128, seed=seed)
    terms[0] = terms[0] * 0.05 - terms[1:].sum(0)
    terms[:, :, :columns] *= 1000
    right = terms.sum(0)
    eager, ours = (
        (terms * (1 + 2.0**-9 * drawn(*terms.shape, seed=seed + n))).sum(0).to(HALF) for n in (1, 2)
    )
    assert shared_by_tiles(ours, eager, right) is None


def cut_off(values: torch.Tensor) -> torch.Tensor:
    """As a tensor core reads float32."""
    return (values.float().view(torch.int32) & ~0x1FFF).view(torch.float32).double()


@pytest.fixture
def product() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Operands in float32, and their product with both cut off."""
    left, right = drawn(128, 128, seed=5), drawn(128, 96, seed=6)
    left, right = left.float().double(), right.float().double()
    return left, right, (cut_off(left) @ cut_off(right)).float()


@pytest.mark.parametrize("factor", [1.0006, 0.9994, 1.002])
def test_a_factor_within_the_budget_of_tf32_is_told(product, factor: float) -> None:
    left, right, eager = product
    said = errs_to_one_side(eager.double() * factor, eager, left @ right)
    assert (said is not None) == (factor != 1.0006)
    whole = errs_to_one_side((left @ right * factor).float(), eager, left @ right)
    assert (whole is not None) == (factor > 1)


def test_one_column_that_is_a_thousandth_too_large_is_told(product) -> None:
    left, right, eager = product
    made = (left @ right).float()
    made[:, 17] *= 1.001
    said = errs_to_one_side(made, eager, left @ right)
    assert said is not None
    assert "index 17 of dimension 1" in said


@given(st.integers(0, 10_000))
def test_operands_may_be_cut_off_rounded_or_kept(seed: int) -> None:
    left, right = (
        drawn(*size, seed=seed + n).float().double() for n, size in enumerate([(48, 64), (64, 32)])
    )
    eager = (cut_off(left) @ cut_off(right)).float()
    nearest = [cut_off(t * (1 + 2.0**-12)) for t in (left, right)]
    for made in (eager, left @ right, cut_off(left) @ right, nearest[0] @ nearest[1]):
        assert errs_to_one_side(made.float(), eager, left @ right) is None


def test_float32_without_tf32_is_the_gates_to_judge(product) -> None:
    left, right, _ = product
    assert (
        errs_to_one_side((left @ right).float() * 1.0006, (left @ right).float(), left @ right)
        is None
    )


def test_the_largest_of_each_row_a_little_smaller_is_told() -> None:
    right = drawn(64, 512)
    made = torch.where(right == right.amax(-1, keepdim=True), right - 0.1, right)
    said = large_elements_off(made.to(HALF), right.to(HALF), right)
    assert said is not None
    assert said.startswith("64 of the")
    found = not_by_rounding(
        "output", made.to(HALF), right.to(HALF), right, natural=True, measure_noise=None
    )
    assert [disclosure.code for disclosure in found.told] == ["large_elements_off"]


@given(st.integers(0, 10_000), st.sampled_from([torch.bfloat16, torch.float16]))
def test_rounding_three_times_is_not_told_as_large_elements_that_are_off(seed: int, dtype) -> None:
    right = drawn(64, 128, seed=seed)
    made = right.to(dtype)
    for scale in (1.5, 1 / 1.5):
        made = (made.double() * scale).to(dtype)
    assert large_elements_off(made, right.to(dtype), right) is None


@pytest.mark.parametrize("lost", [1e-16, 0.0])
def test_of_a_row_that_is_zero_but_for_rounding_nothing_is_a_factor(lost: float) -> None:
    drawn = torch.Generator().manual_seed(3)
    right = torch.randn(64, 256, generator=drawn, dtype=torch.float64)
    right[32] *= lost
    eager = (right * (1 + 1e-4 * torch.randn(64, 256, generator=drawn))).float()
    eager[32] = 0.0
    noise = torch.zeros(64, 256)
    noise[32] = right[32].sign().float() * 1e-8
    assert errs_to_one_side(eager + noise, eager, right) is None
    # A row that eager knows is looked at as ever.
    noise[33] = (right[33] * 0.01).float()
    assert errs_to_one_side(eager + noise, eager, right) is not None
