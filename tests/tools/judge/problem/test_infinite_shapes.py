"""Infinities in the shapes that masks and padding have."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.trials.infinite_shapes import infinite_shapes


def _by_shape(tensor: torch.Tensor, seed: int = 3) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {item.shape: item.tensors["x"] for item in infinite_shapes({"x": tensor}, generator)}


def _only(made: dict[str, torch.Tensor], begins: str) -> torch.Tensor:
    (found,) = (tensor for shape, tensor in made.items() if shape.startswith(begins))
    return found


def test_a_row_is_minus_infinity_throughout_and_others_begin_and_end_so():
    made = _only(_by_shape(torch.randn(64, 300)), "-inf in whole rows").isneginf()
    assert made.all(-1).any()
    assert (made[:, :128].all(-1) & ~made[:, -1]).any()
    assert (made[:, -1] & ~made[:, 0]).any()
    assert (~made.any(-1)).sum() > 40


def test_whole_rows_hold_the_other_infinity_and_nan_as_well():
    made = _only(_by_shape(torch.randn(64, 300)), "+inf or NaN in whole rows")
    assert made.isposinf().any()
    assert made.isnan().any()
    assert not made.isneginf().any()


def test_padding_on_the_left_leaves_every_row_its_last_place():
    made = _only(_by_shape(torch.randn(3, 40, 64)), "-inf in all but the ends").isneginf()
    assert made[..., :48].all()
    assert not made[..., -1].any()


def test_a_causal_mask_leaves_the_diagonal_and_what_is_before_it():
    made = _only(_by_shape(torch.randn(2, 9, 9)), "-inf above").isneginf()
    assert torch.equal(made, torch.ones(9, 9).triu(1).bool().expand(2, 9, 9))


def test_a_tile_holds_a_window_of_two_by_two_wherever_that_begins():
    made = _only(_by_shape(torch.randn(2, 4, 16, 16)), "-inf in tiles").isneginf()
    windows = -torch.nn.functional.max_pool2d(-made.double(), 2)
    assert windows.bool().any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e5m2])
def test_types_and_layouts_are_kept(dtype):
    given = torch.randn(8, 12).T.to(dtype)
    for made in _by_shape(given).values():
        assert made.dtype == dtype
        assert made.stride() == given.stride()


def test_integers_and_types_without_infinities_get_none():
    assert _by_shape(torch.arange(12).reshape(3, 4)) == {}
    assert _by_shape(torch.randn(3, 4).to(torch.float8_e4m3fn)) == {}
