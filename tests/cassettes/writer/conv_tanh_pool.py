"""A convolution of few channels, tanh, a scale and a bias of its own, then the largest of each 4 by 4."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Model(nn.Module):
    """Two biases: the convolution's, and one that is added behind tanh."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        scaling_factor: float,
        bias_shape: tuple[int, ...],
        pool_kernel_size: int,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.scaling_factor = scaling_factor
        self.pool = nn.MaxPool2d(pool_kernel_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(torch.tanh(self.conv(x)) * self.scaling_factor + self.bias)


def get_inputs() -> list[Tensor]:
    return [torch.rand(128, 8, 256, 256)]


def get_init_inputs() -> list[object]:
    return [8, 64, 3, 2.0, (64, 1, 1), 4]
