"""Causal attention with the logarithm of its normaliser, by powers of two."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v):
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v, torch.logsumexp(scores, dim=-1)


def get_inputs():
    return [torch.randn(2, 40, 16) for _ in range(3)]


def get_init_inputs():
    return []
