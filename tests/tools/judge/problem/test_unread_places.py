"""NaN where a reference does not look, and integers that are all alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from kernelagent.tools.judge.problem.trials.scaled_together import scaled_together
from kernelagent.tools.judge.problem.trials.unread_places import (
    alike_integers,
    other_truths,
    unread_places,
)

Inputs = Mapping[str, torch.Tensor]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def changed_in(natural: Inputs, function: Callable[..., Any]) -> list[torch.Tensor]:
    def keeps(tensors: Inputs) -> bool:
        return bool(function(**{**natural, **tensors}).isfinite().all())

    return [item.tensors["x"] for item in unread_places(natural, keeps, seeded())]


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_rows_of_eight_bits_become_nan_as_others_do(dtype: torch.dtype) -> None:
    labels = torch.tensor([0, -100, 2, -100])
    natural = {"x": torch.randn(4, 5, generator=seeded()).to(dtype), "labels": labels}
    (changed,) = changed_in(
        natural,
        lambda x, labels: torch.nn.functional.cross_entropy(x.float(), labels, ignore_index=-100),
    )
    assert changed.dtype == dtype
    assert torch.equal(changed.float().isnan().all(1), labels == -100)
    read = labels != -100
    assert torch.equal(changed[read].float(), natural["x"][read].float())


def test_rows_of_ignored_labels_become_nan_and_no_others() -> None:
    labels = torch.tensor([0, -100, 2, -100])
    natural = {"x": torch.randn(4, 5, generator=seeded()), "labels": labels}
    (changed,) = changed_in(
        natural, lambda x, labels: torch.nn.functional.cross_entropy(x, labels, ignore_index=-100)
    )
    assert torch.equal(changed.isnan().all(1), labels == -100)
    assert torch.equal(changed.isnan().any(1), labels == -100)


def test_what_a_mask_hides_becomes_nan() -> None:
    mask = torch.rand(6, 8, generator=seeded()) < 0.5
    natural = {"x": torch.randn(6, 8, generator=seeded(1)), "mask": mask}
    changed = changed_in(natural, lambda x, mask: torch.where(mask, x, 0.0).sum(-1))
    assert torch.equal(changed[0].isnan(), ~mask)


def test_a_module_that_looks_everywhere_is_given_no_nan() -> None:
    natural = {"x": torch.randn(6, 8, generator=seeded())}
    assert changed_in(natural, lambda x: x.sum(-1)) == []


def test_integers_become_the_least_the_largest_or_the_most_frequent_of_them_everywhere() -> None:
    labels = torch.tensor([3, -100, 2, -100, 7])
    made = [item.tensors["labels"] for item in alike_integers({"labels": labels}, seeded())]
    assert {tuple(tensor.unique().tolist()) for tensor in made} == {(-100,), (7,)}
    assert all(tensor.shape == labels.shape for tensor in made)


def test_all_inputs_are_small_at_once_as_far_as_their_types_reach() -> None:
    x, y = (torch.randn(8, 8, generator=seeded(at)) for at in range(2))
    sizes = [
        [float(item.tensors[name].abs().max() / t.abs().max()) for name, t in (("x", x), ("y", y))]
        for item in scaled_together({"x": x, "y": y, "ids": torch.arange(4)})
    ]
    assert sizes == [[2.0**-40] * 2, [2.0**-80] * 2]
    assert list(scaled_together({"x": x.half(), "y": y})) == []


def test_truths_have_another_byte_and_are_the_same_truths() -> None:
    seen = torch.rand(8, 4, generator=seeded()) < 0.5
    (item,) = other_truths({"x": torch.ones(3), "seen": seen}, seeded())
    made = item.tensors["seen"]
    assert item.name == "seen"
    assert made.dtype == torch.bool
    assert set(made.view(torch.uint8).reshape(-1).tolist()) == {0, 255}
    assert torch.equal(made.view(torch.uint8) != 0, seen)
