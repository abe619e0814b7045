"""Integers of buffers that a constructor does not make."""

from __future__ import annotations

import torch

from kernelagent.tools.judge.problem.trials.unlike_buffers import larger_buffers


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_codes_grow_to_both_sides_as_far_as_their_type_goes() -> None:
    codes = torch.randint(-7, 8, (32, 64), generator=seeded()).to(torch.int8)
    items = list(larger_buffers({"codes": codes, "scale": torch.rand(4)}, seeded(1)))
    largest = [int(item.tensors["codes"].max()) for item in items]
    assert largest == sorted(largest, reverse=True)
    assert (largest[0] > 60, largest[-1] > 7) == (True, True)
    assert int(items[0].tensors["codes"].min()) < -60
    assert all(item.tensors["codes"].dtype == torch.int8 for item in items)


def test_an_order_has_no_negative_numbers() -> None:
    order = torch.randperm(64, generator=seeded())
    items = list(larger_buffers({"order": order}, seeded(1)))
    assert all(int(item.tensors["order"].min()) >= 0 for item in items)
    assert all(int(item.tensors["order"].max()) >= 64 for item in items)


def test_counters_of_one_number_stay() -> None:
    assert list(larger_buffers({"calls": torch.tensor(3)}, seeded())) == []
