"""Rotary position embedding of halves."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, cos, sin):
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * cos + turned * sin


def get_inputs():
    return [torch.randn(2, 12, 32), torch.rand(12, 32), torch.rand(12, 32)]


def get_init_inputs():
    return []
