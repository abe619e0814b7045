"""Columns less a running mean, over a running size, for candidates that are judged with their gradients."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.register_buffer("size", torch.ones(width))

    def forward(self, x):
        if self.training:
            size = x.abs().mean(0)
            with torch.no_grad():
                self.size.mul_(0.9).add_(0.1 * size)
        else:
            size = self.size
        return x / (size + 0.1) * self.weight


def get_inputs():
    return [torch.randn(32, 24)]


def get_init_inputs():
    return [24]
