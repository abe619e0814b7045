"""Heads in bfloat16 divided by the root of their mean square and turned by their position, as queries and keys are."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, dtype=torch.bfloat16))

    def forward(self, x, cos, sin):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        normed = wide * self.weight.float()
        first, second = normed.chunk(2, dim=-1)
        cos, sin = cos[:, None], sin[:, None]
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        return turned.to(x.dtype)


def get_inputs():
    angles = torch.arange(12)[:, None] / 10000 ** (torch.arange(16) / 16)
    return [torch.randn(2, 12, 3, 32, dtype=torch.bfloat16), angles.cos(), angles.sin()]


def get_init_inputs():
    return [32]
