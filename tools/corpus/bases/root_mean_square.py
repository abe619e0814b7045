"""Rows divided by the root of their mean square: the answer is known at any size of a row."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(1 + torch.randn(width) / 8)

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weight


def get_inputs():
    return [torch.randn(72, 160)]


def get_init_inputs():
    return [160]
