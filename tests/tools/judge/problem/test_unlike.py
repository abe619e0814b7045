from __future__ import annotations

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.judge.problem.trials.equal_elements import equal_elements
from kernelagent.tools.judge.problem.trials.unlike import (
    Unlike,
    unlike,
    unlike_weights,
)
from kernelagent.tools.judge.problem.trials.unlike_integers import (
    close_integers,
    larger_integers,
    smaller_integers,
)
from kernelagent.tools.judge.verify.compare.small_results import lost_results, zeros_of_other_sign


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made_of(
    tensor: torch.Tensor, state: dict[str, torch.Tensor] | None = None
) -> dict[str, list[Unlike]]:
    result: dict[str, list[Unlike]] = {}
    made = unlike({"x": tensor}, seeded(1))
    for item in chain(made, equal_elements({"x": tensor}, state or {}, seeded(1))):
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
    for item in unlike({"x": drawn}, seeded(seed)):
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


def test_a_weight_becomes_ten_times_as_large_and_some_of_its_elements_far_more() -> None:
    weight = torch.randn(16, 8, generator=seeded())
    ten, far = unlike_weights({"weight": weight}, seeded())
    assert {ten.property, far.property} == {"magnitudes"}
    assert torch.equal(ten.tensors["weight"], 10 * weight)
    assert float(far.tensors["weight"].abs().max()) > 100


def test_a_weight_of_few_elements_gets_the_other_sign_in_all_of_them() -> None:
    gate = torch.tensor([0.5, 0.25])
    (item,) = [i for i in unlike_weights({"gate": gate}, seeded()) if i.property == "signs"]
    assert torch.equal(item.tensors["gate"], -gate)


def test_counts_in_floats_get_larger_ones_and_masks_none() -> None:
    counts = torch.randint(0, 10, (16, 8), generator=seeded()).float()
    (item,) = made_of(counts)["larger_integers"]
    more = item.tensors["x"]
    assert bool((more == more.round()).all())
    assert float(more.max()) > 100
    assert bool((more[more != counts] > 9).all())
    assert "larger_integers" not in made_of((counts < 5).float())


def test_zeros_of_another_sign_are_found() -> None:
    right = torch.cat([torch.zeros(40), torch.ones(40)]).double()
    assert zeros_of_other_sign(right.float(), right.float(), right) is None
    told = zeros_of_other_sign(-right.float(), right.float(), right)
    assert told is not None
    assert "100% of the zeros" in told


def test_complex_inputs_are_tried_in_other_sizes_and_have_no_order():
    z = torch.randn(16, 32, dtype=torch.complex64)
    made = list(unlike({"z": z}, torch.Generator().manual_seed(1)))
    assert {item.property for item in made} == {"magnitudes"}
    fading = [item.tensors["z"].abs() for item in made if "fall along" in item.tried]
    assert min(float(sizes.min()) for sizes in fading) < 1e-9


def test_integers_are_equal_or_differ_by_one_or_in_high_bits_alone():
    left, right = (torch.randint(0, 1000, (64, 100), generator=seeded(at)) for at in (1, 2))
    made = close_integers(left, right, 1 << 62, seeded(3))
    assert made is not None
    apart = made[0] - made[1]
    assert bool((made[1] >= 1 << 24).all())
    for difference in (0, 1, -1, 1 << 32, 1 << 48):
        assert int((apart == difference).sum()) > 100


def test_a_tensor_alone_has_integers_close_to_others_of_its_own():
    ids = torch.arange(1000)
    made = close_integers(ids, ids, 1 << 40, seeded(4))
    assert made is not None
    assert len(made[0].unique()) < 900


def test_no_integers_are_close_where_there_is_no_room_for_large_ones():
    ids = torch.zeros(8, dtype=torch.int8)
    assert close_integers(ids, ids, 127, seeded()) is None


def test_rows_become_as_small_as_a_number_of_the_reference():
    made = unlike({"x": torch.randn(64, 32, generator=seeded())}, seeded(1), (1e-12, 1e-5))
    (tiny,) = [item for item in made if "1e-12" in item.tried]
    norms = tiny.tensors["x"].double().square().sum(-1).sqrt()
    assert float(norms.min()) < 1e-12 < float(norms.max()) < 1e-11


def test_elements_of_a_row_come_to_differ_in_their_last_bits_alone():
    (item,) = made_of(torch.randn(16, 64, generator=seeded()))["near_equals"]
    rows = item.tensors["x"].sort(-1).values
    apart = rows.diff(dim=-1) / rows[:, 1:].abs()
    assert int(((apart > 0) & (apart < 30 * 2.0**-23)).sum()) > 50


@pytest.mark.parametrize("weight", [torch.ones(16, 16).triu(), torch.eye(16), -torch.eye(16)])
def test_a_pattern_of_few_numbers_is_left_and_random_weights_are_none(weight):
    (item,) = [i for i in unlike_weights({"w": weight}, seeded(2)) if i.property == "patterns"]
    assert len(item.tensors["w"].unique()) > 200
    others = unlike_weights({"w": torch.randn(16, 16, generator=seeded())}, seeded(2))
    assert all(i.property != "patterns" for i in others)


def test_negative_integers_go_far_below_their_smallest():
    ids = torch.randint(-10, 10, (1000,), generator=seeded())
    made = smaller_integers(ids, -(1 << 40), seeded(1))
    assert made is not None
    assert int(made.min()) < -(1 << 38)
    assert smaller_integers(ids.to(torch.int8), -(1 << 40), seeded(1)) is None
