"""Residual add followed by RMSNorm in bfloat16: twice in every layer of a Llama-style transformer.

Size here: 64 tokens of width 512, which the virtual device runs in a moment.
On a GPU use the sizes of a real model, for example TOKENS, WIDTH = 8192, 4096.
"""

import torch
import torch.nn as nn

TOKENS, WIDTH = 64, 512


class Model(nn.Module):
    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, dtype=torch.bfloat16) / 4 + 1)
        self.eps = eps

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = x + residual
        wide = hidden.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return normed.to(hidden.dtype) * self.weight, hidden


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16) for _ in range(2)]


def get_init_inputs() -> list[int]:
    return [WIDTH]
