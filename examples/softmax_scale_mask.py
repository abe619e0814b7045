"""Scaled and masked softmax over attention scores, in float16.

Attention written out (older checkpoints, models with unusual biases, anything that returns its
attention weights) meets this between the two matrix products: scale, hide, normalise.
"""

import math

import torch
from torch import nn

BATCH = 2  # on a GPU: 8
HEADS = 4  # on a GPU: 32
QUERIES = 16  # on a GPU: 1000
KEYS = 200  # on a GPU: 2000


class Model(nn.Module):
    """Softmax over the keys a query may see; `mask` is True where it may."""

    def __init__(self, head_size: int):
        super().__init__()
        self.scale = 1 / math.sqrt(head_size)

    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        wide = scores.float() * self.scale
        # The lowest finite number, not -inf: a query that sees nothing gets equal weights, not NaN.
        hidden = wide.masked_fill(~mask, torch.finfo(torch.float32).min)
        return torch.softmax(hidden, dim=-1).to(scores.dtype)


def get_inputs():
    scores = 8 * torch.randn(BATCH, HEADS, QUERIES, KEYS)
    mask = torch.rand(BATCH, 1, QUERIES, KEYS) < 0.8
    return [scores.half(), mask]


def get_init_inputs():
    return [64]
