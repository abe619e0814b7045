"""What a reference needs at least once its sums and means are taken before the linear maps they are of."""

from __future__ import annotations

import torch
from torch import nn

from kernelagent.tools.judge.bounds.moved_reference import rows_with_moved_reductions
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.cost.eager import eager_rows

H200 = ceilings_for("sm_90")


class Pooled(nn.Module):
    def __init__(self, between: nn.Module) -> None:
        super().__init__()
        self.project = nn.Linear(64, 512)
        self.between = between

    def forward(self, x: torch.Tensor, *, over: int) -> torch.Tensor:
        y: torch.Tensor = self.between(self.project(x)).mean(over)
        return y


def pooled(between: nn.Module) -> nn.Module:
    return Pooled(between).to("meta")


def test_products_of_all_rows_become_one_of_their_mean() -> None:
    module, x = pooled(nn.Identity()), torch.empty(4, 256, 64, device="meta")
    rows = rows_with_moved_reductions(module, ((x,), {"over": 1}), H200)
    assert rows is not None
    before = eager_rows(module, (x,), {"over": 1})
    assert sum(row.dot_flops for row in rows) == 2 * 4 * 64 * 512
    assert sum(row.dot_flops for row in before) == 2 * 4 * 256 * 64 * 512


def test_with_anything_between_that_is_not_linear_there_is_no_other_form() -> None:
    module, x = pooled(nn.ReLU()), torch.empty(4, 256, 64, device="meta")
    assert rows_with_moved_reductions(module, ((x,), {"over": 1}), H200) is None


class ByValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


def test_a_module_that_cannot_be_traced_has_no_other_form() -> None:
    x = torch.empty(4, 4, device="meta")
    assert rows_with_moved_reductions(ByValue(), ((x,), {}), H200) is None
