"""Scaled, masked softmax over attention scores, as attention without a fused kernel computes it.

Size here: 2 heads of 64 queries over 256 keys. On a GPU: HEADS, QUERIES, KEYS = 32, 2048, 2048.
"""

import torch
import torch.nn as nn

HEADS, QUERIES, KEYS = 2, 64, 256


class Model(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax((scores * self.scale).masked_fill(~mask, float("-inf")), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    scores = torch.randn(HEADS, QUERIES, KEYS)
    offset = KEYS - QUERIES
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool).tril(offset)
    return [scores, mask]


def get_init_inputs() -> list[float]:
    return [0.125]
