"""A large linear layer whose output gets its own scaled sigmoid added."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH = 8192


class Model(nn.Module):
    """Weights of 268 MB against an input of 34 MB."""

    def __init__(self, input_size: int, hidden_size: int, scaling_factor: float) -> None:
        super().__init__()
        self.gemm = nn.Linear(input_size, hidden_size)
        self.scaling_factor = scaling_factor

    def forward(self, x: Tensor) -> Tensor:
        y = self.gemm(x)
        return y + torch.sigmoid(y) * self.scaling_factor


def get_inputs() -> list[Tensor]:
    return [torch.rand(1024, WIDTH)]


def get_init_inputs() -> list[object]:
    return [WIDTH, WIDTH, 2.0]
