"""Logarithms of probabilities, with infinities where a mask hides."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(x.masked_fill(hidden, float("-inf")), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(32, 96), torch.rand(32, 96) < 0.3]


def get_init_inputs() -> list[object]:
    return []
