"""Rows less a mean that moves with every batch and is kept in a buffer."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.scale = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x):
        self.mean.mul_(0.8).add_(x.mean(0), alpha=0.2)
        return (x - self.mean) * self.scale


def get_inputs():
    return [torch.randn(24, 48)]


def get_init_inputs():
    return [48]
