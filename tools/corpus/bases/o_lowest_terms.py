"""Ratios of whole numbers in lowest terms, as gear trains and frame rates have them."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, above: torch.Tensor, below: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        common = torch.gcd(above, below)
        return above // common, below // common


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(1, 100_000, (512,)), torch.randint(1, 100_000, (512,))]


def get_init_inputs() -> list[object]:
    return []
