"""Sixteen huge rows, normalised over three dimensions at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

SHAPE = (64, 256, 256)


class Model(nn.Module):
    """A layer norm whose row has four million elements."""

    def __init__(self, normalized_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape)

    def forward(self, x: Tensor) -> Tensor:
        return self.ln(x)


def get_inputs() -> list[Tensor]:
    return [torch.rand(16, *SHAPE)]


def get_init_inputs() -> list[object]:
    return [SHAPE]
