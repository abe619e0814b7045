"""Rotary position embedding with tables as models make them: each angle stands in both halves."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, cos, sin):
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * cos + turned * sin


def get_inputs():
    angles = 100 * torch.rand(12, 16)
    both = torch.cat((angles, angles), dim=-1)
    return [torch.randn(2, 12, 32), both.cos(), both.sin()]


def get_init_inputs():
    return []
