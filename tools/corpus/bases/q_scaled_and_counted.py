"""A weight and a count in numbers of which a mask hides some."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int32))

    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        by = self.weight * (self.calls % 5 + 1)
        self.calls += 1
        return (x * by).masked_fill(hidden, float("-inf"))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(32, 96), torch.rand(32, 96) < 0.3]


def get_init_inputs() -> list[object]:
    return [96]
