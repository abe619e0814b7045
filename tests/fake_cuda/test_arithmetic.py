"""The fake device's arithmetic: reductions and scans in pairs that keep the order, and bfloat16."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.fake_cuda.bfloat import rounded, widened
from tests.fake_cuda.reducing import in_pairs, running

Parts = list[np.ndarray]


def chained(left: Parts, right: Parts) -> Parts:
    """One linear map after the other: the order counts."""
    return [right[0] * left[0], right[0] * left[1] + right[1]]


@pytest.mark.parametrize("length", [1, 2, 5, 8, 13])
@pytest.mark.parametrize("axis", [0, 1])
def test_neighbours_meet_in_their_order(length: int, axis: int) -> None:
    draw = np.random.default_rng(length)
    shape = (length, 3) if axis == 0 else (3, length)
    parts = [draw.integers(-2, 3, shape), draw.integers(-9, 10, shape)]
    places = [np.take(parts[0], [at], axis) for at in range(length)]
    others = [np.take(parts[1], [at], axis) for at in range(length)]
    expected = [[places[0], others[0]]]
    for place in zip(places[1:], others[1:], strict=True):
        expected.append(chained(expected[-1], list(place)))
    for mine, theirs in zip(in_pairs(parts, axis, chained), expected[-1], strict=True):
        assert (mine == theirs).all()
    whole = [np.concatenate(steps, axis) for steps in zip(*expected, strict=True)]
    for mine, theirs in zip(running(parts, axis, chained), whole, strict=True):
        assert (mine == theirs).all()


def test_a_long_sum_of_columns_is_as_exact_as_a_gpus() -> None:
    values = np.random.default_rng(0).random((1 << 16, 2), dtype=np.float32)
    exact = values.astype(np.float64).sum(0)

    def error(found: np.ndarray) -> float:
        return float(np.abs(found / exact - 1).max())

    add = lambda left, right: [left[0] + right[0]]  # noqa: E731
    assert error(in_pairs([values], 0, add)[0]) < 5e-7
    assert error(running([values], 0, add)[0][-1]) < 5e-7
    assert error(values.cumsum(0)[-1]) > 2e-6


def test_bfloat16_is_widened_and_rounded_as_torch_does_it() -> None:
    drawn = torch.randn(4096, generator=torch.Generator().manual_seed(0))
    edges = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40, 3.4e38, 1 + 2**-8]
    values = torch.cat([drawn, drawn.bfloat16() * (1 + 2**-8), torch.tensor(edges)])
    theirs = values.bfloat16()
    mine = rounded(values.numpy())
    assert torch.equal(torch.from_numpy(mine).view(torch.bfloat16).isnan(), theirs.isnan())
    there = ~theirs.isnan().numpy()
    assert (mine[there] == theirs.view(torch.uint16).numpy()[there]).all()
    assert np.array_equal(widened(mine), theirs.float().numpy(), equal_nan=True)
