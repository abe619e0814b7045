"""For modules that check their inputs others are found that pass the checks, and for others none are asked for."""

from __future__ import annotations

import torch

from kernelagent.tools.judge.problem.trials.checked_inputs import checked_inputs
from kernelagent.tools.judge.problem.trials.input_domain import Tensors


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_nothing_is_asked_for_where_the_module_refuses_nothing() -> None:
    natural = {"x": torch.randn(4, 8), "ids": torch.randint(9, (4, 8))}
    assert not list(checked_inputs(natural, lambda _: True, generator()))


def test_boxes_that_must_have_an_area_are_moved_apart() -> None:
    low = torch.rand(24, 2, generator=generator())
    boxes = torch.cat([low, low + 1], -1)

    def takes(tensors: Tensors) -> bool:
        return bool((tensors["boxes"][:, 2:] > tensors["boxes"][:, :2]).all())

    found = [item.tensors["boxes"] for item in checked_inputs({"boxes": boxes}, takes, generator())]
    assert found
    assert all(takes({"boxes": each}) for each in found)
    assert all(each.shape == boxes.shape and each.dtype == boxes.dtype for each in found)
    assert any(bool((each[:, None, :2] > boxes[None, :, 2:]).all(-1).any()) for each in found)


def test_brackets_that_must_match_are_nested_deeply() -> None:
    opens = torch.tensor([True, False] * 32)

    def depths(brackets: torch.Tensor) -> torch.Tensor:
        return (brackets.long() * 2 - 1).cumsum(0)

    def takes(tensors: Tensors) -> bool:
        depth = depths(tensors["opens"])
        return bool((depth >= 0).all()) and int(depth[-1]) == 0

    found = [item.tensors["opens"] for item in checked_inputs({"opens": opens}, takes, generator())]
    assert all(takes({"opens": each}) for each in found)
    assert max(int(depths(each).max()) for each in found) == 32


def test_an_order_that_must_be_kept_is_kept_while_the_values_move() -> None:
    edges = torch.linspace(0, 1, 16)

    def takes(tensors: Tensors) -> bool:
        return bool((tensors["edges"].diff() >= 0).all())

    found = [item.tensors["edges"] for item in checked_inputs({"edges": edges}, takes, generator())]
    assert all(takes({"edges": each}) for each in found)
    assert any(not torch.equal(each, edges) for each in found)


def test_what_is_found_is_laid_out_as_the_input_is() -> None:
    natural = {"x": torch.arange(8.0).expand(4, 8)}
    found = list(checked_inputs(natural, lambda t: bool((t["x"] >= 0).all()), generator()))
    assert found
    assert all(item.tensors["x"].stride() == natural["x"].stride() for item in found)
