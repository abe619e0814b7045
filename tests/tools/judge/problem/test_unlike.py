from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.judge.problem.trials.unlike import (
    Unlike,
    larger_integers,
    smaller_integers,
    unlike,
    unlike_weights,
)
from kernelagent.tools.judge.verify.compare.small_results import lost_results, zeros_of_other_sign


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made_of(
    tensor: torch.Tensor, state: dict[str, torch.Tensor] | None = None
) -> dict[str, list[Unlike]]:
    result: dict[str, list[Unlike]] = {}
    for item in unlike({"x": tensor}, state or {}, seeded(1)):
        result.setdefault(item.property, []).append(item)
    return result


def test_whole_numbers_get_fractions_within_their_range() -> None:
    (item,) = made_of((torch.rand(8, 16, generator=seeded()) < 0.5).float())["fractions"]
    values = item.tensors["x"]
    assert bool((values != values.round()).any())
    assert (float(values.min()) >= 0, float(values.max()) <= 1) == (True, True)


def test_numbers_of_one_sign_get_the_other() -> None:
    positive = torch.rand(8, 16, generator=seeded()) + 0.1
    (item,) = made_of(positive)["signs"]
    assert torch.equal(item.tensors["x"].abs(), positive)
    assert bool((item.tensors["x"] < 0).any())
    assert "signs" not in made_of(torch.randn(8, 16, generator=seeded()))


def test_rows_that_sum_to_one_get_other_sums() -> None:
    rows = torch.softmax(torch.randn(8, 16, generator=seeded()), -1)
    (item,) = made_of(rows)["sums"]
    sums = item.tensors["x"].sum(-1)
    assert float((sums - 1).abs().max()) > 0.5


def test_a_single_number_takes_sizes_from_all_of_the_range() -> None:
    sizes = sorted(float(i.tensors["x"]) for i in made_of(torch.tensor(0.7))["magnitudes"])
    assert sizes[0] < 0.02
    assert sizes[-1] > 40


def test_elements_rows_and_means_reach_far_beyond_the_draws() -> None:
    items = made_of(torch.randn(64, 16, generator=seeded()))["magnitudes"]
    rising = [item for item in items if "fall" not in item.tried]
    largest = [float(item.tensors["x"].abs().max()) for item in rising]
    assert min(largest) > 30
    assert max(float(item.tensors["x"].mean(-1).abs().max()) for item in items) > 20


def test_numbers_fall_along_each_dimension_far_below_what_comes_first() -> None:
    items = made_of(1 + torch.rand(64, 16, generator=seeded()))["magnitudes"]
    falling = [item.tensors["x"] for item in items if "fall" in item.tried]
    assert [float(x[-1].max() / x[0].max()) < 1e-11 for x in falling] == [True, False]
    assert [float(x[:, -1].max() / x[:, 0].max()) < 1e-11 for x in falling] == [False, True]


def test_an_element_equals_one_of_a_weight_beside_it() -> None:
    level = torch.rand(16, generator=seeded())
    (item,) = made_of(torch.randn(8, 16, generator=seeded(2)), {"level": level})["equal"]
    same = item.tensors["x"] == level
    assert 0 < int(same.sum()) < same.numel()


@pytest.mark.hypothesis
@given(
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn]),
    scale=st.floats(1e-3, 1e2),
    seed=st.integers(0, 99),
)
def test_no_number_becomes_infinite(dtype: torch.dtype, scale: float, seed: int) -> None:
    drawn = (scale * torch.randn(4, 16, generator=seeded(seed))).to(dtype)
    for item in unlike({"x": drawn}, {}, seeded(seed)):
        assert item.tensors["x"].dtype == dtype
        assert bool(item.tensors["x"].float().isfinite().all())


def test_integers_stay_within_their_type() -> None:
    small = torch.arange(100, dtype=torch.int8)
    assert larger_integers(small, 2.0, seeded()) is None
    more = larger_integers(small, 1.25, seeded())
    assert more is not None
    assert 99 < int(more.max()) <= 124


def test_small_results_that_are_zero_are_found_beside_large_ones() -> None:
    right = torch.cat([torch.full((40,), 600.0), torch.full((40,), 1e-4)]).double()
    lost = torch.where(right < 1, 0.0, right).float()
    assert "50% of output's elements" in str(lost_results(lost, right.float(), right))
    assert lost_results(right.float(), right.float(), right) is None


@pytest.mark.parametrize("factor", [0.67, 1.4, 1.06])
def test_small_results_are_told_where_the_reference_knows_them_to_four_digits(
    factor: float,
) -> None:
    right = torch.cat([torch.full((40,), 600.0), torch.full((40,), 1e-4)]).double()
    off = torch.where(right < 1, factor * right, right).float()
    said = lost_results(off, right.float(), right)
    assert said is not None
    assert "more than a twentieth" in said
    # Sixteen bits know two digits.
    assert lost_results(off.bfloat16(), right.bfloat16(), right) is None


def test_what_is_near_zero_by_cancellation_is_not_taken_for_lost() -> None:
    right = 1e-9 * torch.randn(400, generator=seeded(), dtype=torch.float64)
    usual = (right + 1e-8 * torch.randn(400, generator=seeded(1), dtype=torch.float64)).float()
    assert lost_results(torch.zeros(400), usual, right) is None


def test_integers_go_down_to_the_least_that_is_asked_for() -> None:
    ids = torch.randint(5, 100, (64,), generator=seeded())
    fewer = smaller_integers(ids, 0, seeded())
    assert fewer is not None
    assert (int(fewer.min()) >= 0, int(fewer.min()) < 5) == (True, True)
    assert smaller_integers(ids - 5, 0, seeded()) is None


def test_weights_lose_what_all_of_their_draws_have() -> None:
    ternary = torch.randint(-1, 2, (16, 8), generator=seeded()).float()
    (item,) = unlike_weights({"weight": ternary}, seeded())
    assert (item.property, item.name) == ("fractions", "weight")
    assert not list(unlike_weights({"weight": torch.randn(16, 8, generator=seeded())}, seeded()))


def test_zeros_of_another_sign_are_found() -> None:
    right = torch.cat([torch.zeros(40), torch.ones(40)]).double()
    assert zeros_of_other_sign(right.float(), right.float(), right) is None
    told = zeros_of_other_sign(-right.float(), right.float(), right)
    assert told is not None
    assert "100% of the zeros" in told
