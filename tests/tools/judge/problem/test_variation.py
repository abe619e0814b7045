"""Extreme values and other values of what never changes."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.trials.variation import (
    BOUND,
    EXTREMES,
    OUTSIDE,
    softened,
    varied,
    with_empty_rows,
    with_extremes,
    with_integers_outside,
)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(7)


@pytest.mark.parametrize("kind", EXTREMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_few_rows_hold_an_extreme_value_and_the_others_are_kept(kind, dtype, generator):
    x = torch.randn(21, 33).to(dtype)
    (made,) = with_extremes({"x": x}, kind, generator).values()
    changed = (made != x) | made.isnan()
    rows = changed.any(-1)
    one_each = changed.sum(-1) == 1
    assert one_each.sum() == 3
    assert rows.sum() == (6 if kind == "infinity" else 3)
    assert torch.equal(made[~rows], x[~rows])


def test_half_of_some_rows_is_minus_infinity_and_never_all_of_one(generator):
    for dtype in (torch.float32, torch.float64, torch.float8_e5m2):
        x = torch.rand(21, 8).to(dtype)
        made = with_extremes({"x": x}, "infinity", generator)["x"].double()
        masked = made.isneginf().sum(-1)
        assert (masked > 1).sum() >= 2
        assert masked.max() < 8


def test_the_extremes_are_what_they_are_called(generator):
    x = {"x": torch.randn(70, 5)}
    assert with_extremes(x, "nan", generator)["x"].isnan().any()
    assert with_extremes(x, "infinity", generator)["x"].isneginf().any()
    largest = with_extremes(x, "largest", generator)["x"]
    assert largest.max() == torch.finfo(torch.float32).max
    assert ((largest != 0) & (largest.abs() < torch.finfo(torch.float32).tiny)).any()


def test_a_type_of_eight_bits_gets_the_extremes_that_it_has(generator):
    x = torch.randn(21, 33).to(torch.float8_e4m3fn)
    made = {kind: with_extremes({"x": x}, kind, generator) for kind in EXTREMES}
    assert made["infinity"] == {}
    assert made["nan"]["x"].float().isnan().any()
    assert made["largest"]["x"].float().max() == torch.finfo(torch.float8_e4m3fn).max


def test_a_constant_of_eight_bits_is_taken_for_no_mask(generator):
    x = torch.linspace(-1, 1, 40).to(torch.float8_e4m3fn)
    other = varied(x, generator)
    assert other is not None
    assert other.dtype == x.dtype
    assert torch.equal(other.float().sort().values, x.float().sort().values)


def test_masks_and_integers_get_no_extreme_values(generator):
    given = {"i": torch.arange(9), "m": torch.ones(3, 3).triu(1) * -torch.inf}
    assert with_extremes({"i": given["i"]}, "nan", generator) == {}


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(9, 9, dtype=torch.bool).tril(),
        torch.tensor([0, 4, 9, 17, 30]),
        torch.arange(40),
        torch.full((6,), 12),
        torch.tensor(5),
        torch.zeros(9, 9).masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -torch.inf),
    ],
)
def test_other_values_stay_in_the_range_seen(tensor, generator):
    other = varied(tensor, generator)
    assert other is not None
    assert not torch.equal(other, tensor)
    assert other.dtype == tensor.dtype
    assert other.shape == tensor.shape
    assert other.max() <= tensor.max()


def test_offsets_end_where_they_ended(generator):
    other = varied(torch.tensor([0, 4, 9, 17, 30]), generator)
    assert other[0] == 0
    assert other[-1] == 30
    assert bool((other[1:] >= other[:-1]).all())


def test_a_mask_never_hides_a_whole_row(generator):
    other = varied(torch.ones(50, 3, dtype=torch.bool).tril(), generator)
    assert bool(other.any(-1).all())


@pytest.mark.parametrize("number", OUTSIDE)
def test_integers_that_no_input_holds_come_into_a_few_places(number, generator):
    given = {"i": torch.arange(21), "x": torch.ones(3), "small": torch.tensor([-200, 3])}
    made = with_integers_outside(given, number, generator)
    assert int((made["i"] == number).sum()) == 3
    assert int((made["i"] != given["i"]).sum()) == 3
    assert torch.equal(made["small"], given["small"])
    assert with_integers_outside({"x": given["x"]}, number, generator) == {}


def test_complex_inputs_hold_an_extreme_in_either_part_and_in_both(generator):
    z = torch.randn(21, 33, dtype=torch.complex64)
    made = with_extremes({"z": z}, "nan", generator)["z"]
    real, imaginary = made.real.isnan(), made.imag.isnan()
    assert bool((real & ~imaginary).any())
    assert bool((imaginary & ~real).any())
    assert bool((real & imaginary).any())
    large = with_extremes({"z": z}, "largest", generator)["z"]
    assert bool(large.abs().isfinite().all())
    assert float(large.abs().max()) > 1e38


def test_probabilities_counts_and_masks_that_are_added_hold_nan_and_infinity_too(generator):
    tensors = {
        "share": torch.softmax(torch.randn(21, 8), -1),
        "count": torch.randint(0, 9, (21, 8)).float(),
        "mask": torch.zeros(8, 8).masked_fill(torch.ones(8, 8).triu(1).bool(), -torch.inf),
        "x": torch.randn(21, 8),
    }
    made = with_extremes(tensors, "nan", generator, BOUND)
    assert {name: bool(tensor.isnan().any()) for name, tensor in made.items()} == {
        "share": True,
        "count": True,
        "mask": True,
        "x": False,
    }


def additive(rows: int = 40) -> torch.Tensor:
    hidden = torch.rand(rows, 16, generator=torch.Generator().manual_seed(1)) < 0.4
    hidden[:, 0] = False
    return torch.where(hidden, -1e9, 0.0)


def test_rows_of_masks_are_empty_whether_they_are_truths_or_added(generator):
    mask = torch.rand(40, 16, generator=generator) < 0.5
    mask[:, 0] = True
    made = with_empty_rows({"mask": mask, "bias": additive(), "x": torch.randn(40, 16)}, generator)
    assert 0 < int((~made["mask"]).all(-1).sum()) < 40
    assert 0 < int((made["bias"] == -1e9).all(-1).sum()) < 40
    assert with_empty_rows({"x": torch.randn(40, 16)}, generator) == {}


def test_a_mask_that_is_added_gets_other_numbers_where_it_hides_nothing(generator):
    mask = additive()
    made = softened(mask, generator)
    assert made is not None
    assert torch.equal(made[mask != 0], mask[mask != 0])
    assert bool((made[mask == 0] != 0).all())
    assert softened(torch.randn(4, 4), generator) is None
    assert softened(torch.zeros(4, 4), generator) is None
