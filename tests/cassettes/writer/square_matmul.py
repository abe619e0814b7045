"""A product of two square matrices in float32."""

from __future__ import annotations

import torch
from torch import Tensor, nn

SIZE = 4096


class Model(nn.Module):
    """One product, nothing else."""

    def forward(self, A: Tensor, B: Tensor) -> Tensor:
        return torch.matmul(A, B)


def get_inputs() -> list[Tensor]:
    return [torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE)]


def get_init_inputs() -> list[object]:
    return []
