"""Attention with a mask that is added to the scores: zeros, and what hides."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias
        return torch.softmax(scores, -1) @ v


def get_inputs() -> list[torch.Tensor]:
    bias = torch.where(torch.rand(2, 32) < 0.25, -1e9, 0.0)
    bias[:, 0] = 0.0
    return [torch.randn(2, 16, 16), torch.randn(2, 32, 16), torch.randn(2, 32, 16), bias[:, None]]


def get_init_inputs() -> list[object]:
    return []
