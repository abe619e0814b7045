"""Attention of bfloat16 heads under a boolean mask, and its scores in float32."""

from __future__ import annotations

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v, mask):
        scores = q.float() @ k.float().transpose(-1, -2) * q.shape[-1] ** -0.5
        weights = torch.softmax(scores.masked_fill(~mask, -1e9), -1)
        return weights.to(v.dtype) @ v, torch.where(mask, scores, 0.0)


def get_inputs():
    q, k, v = (torch.randn(3, 64, 32, dtype=torch.bfloat16) for _ in range(3))
    return [q, k, v, torch.rand(64, 64) < 0.7]


def get_init_inputs():
    return []
