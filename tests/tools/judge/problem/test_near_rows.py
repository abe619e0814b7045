"""Rows near one another, which no draw of independent rows has."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.trials.near_rows import near_rows
from kernelagent.tools.judge.problem.trials.unlike import Unlike


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made_of(
    tensors: dict[str, torch.Tensor], state: dict[str, torch.Tensor] | None = None
) -> list[Unlike]:
    return list(near_rows(tensors, state or {}, seeded(1)))


def apart(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """By rows, as a share of their size."""
    return (one - other).norm(dim=-1) / other.norm(dim=-1)


@pytest.mark.parametrize(
    ("dtype", "nearest"), [(torch.float32, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)]
)
def test_rows_of_one_input_come_near_those_beside_them(dtype: torch.dtype, nearest: float) -> None:
    tensors = {n: torch.randn(64, 32, generator=seeded(at)) for at, n in enumerate("ab")}
    tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    drawn, alike = (i for i in made_of(tensors) if i.other)
    for item in (drawn, alike):
        distances = apart(item.tensors[item.name].float(), tensors[item.other].float())
        assert nearest / 4 < float(distances.min())
        assert float(distances.max()) < 0.2
    spread = [
        apart(item.tensors[item.name].float(), tensors[item.other].float()).log2()
        for item in (drawn, alike)
    ]
    assert float(spread[1].max() - spread[1].min()) < 1
    if dtype == torch.float32:
        assert float(spread[0].max() - spread[0].min()) > 10


def test_rows_come_near_those_of_a_weight_of_the_same_length() -> None:
    codes = torch.randn(8, 16, generator=seeded(3))
    items = made_of({"x": torch.randn(40, 16, generator=seeded())}, {"codes": codes})
    item = next(item for item in items if item.other == "codes")
    nearest = torch.cdist(item.tensors["x"].double(), codes.double()).amin(-1)
    assert float(nearest.max()) < 0.2 * float(codes.norm(dim=-1).max())


def test_rows_of_one_input_come_near_to_others_of_it() -> None:
    (item, _) = made_of({"x": torch.randn(3, 20, 16, generator=seeded())})
    rows = item.tensors["x"]
    assert float(apart(rows[:, 1::2], rows[:, ::2]).max()) < 0.4
    assert float(apart(rows[:, 2::2], rows[:, :-2:2]).min()) > 0.4


def test_positive_numbers_stay_so_and_masks_stay_as_they_are() -> None:
    prices = {n: torch.rand(32, 16, generator=seeded(at)) + 0.01 for at, n in enumerate("ab")}
    assert all(bool((i.tensors[i.name] > 0).all()) for i in made_of(prices))
    mask = (torch.rand(32, 16, generator=seeded()) < 0.5).float()
    assert made_of({"mask": mask, "ids": torch.arange(64).reshape(4, 16)}) == []
