"""Causal attention with a rectifier in the place of softmax; its second projection is never applied."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

WIDTH, HEADS, LONGEST = 768, 12, 1024


class Model(nn.Module):
    """One joint projection, heads side by side, scores below zero or ahead of the query dropped."""

    def __init__(self, n_embd: int, n_head: int, max_seqlen: int) -> None:
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        seen = torch.ones(max_seqlen, max_seqlen).tril()
        self.register_buffer("bias", seen[None, None])
        self.heads = n_head

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.c_attn(x).chunk(3, dim=-1)
        query, key, value = (
            part.reshape(batch, length, self.heads, -1).transpose(1, 2) for part in parts
        )
        scores = query @ key.mT / math.sqrt(width // self.heads)
        ahead = self.bias[:, :, :length, :length] == 0
        weights = scores.masked_fill(ahead, -math.inf).relu()
        return (weights @ value).transpose(1, 2).reshape(batch, length, width)


def get_inputs() -> list[Tensor]:
    return [torch.rand(16, LONGEST, WIDTH)]


def get_init_inputs() -> list[object]:
    return [WIDTH, HEADS, LONGEST]
