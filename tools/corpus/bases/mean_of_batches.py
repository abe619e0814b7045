"""Normalisation by the plain mean of all batches seen, which a counter divides by."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.num_batches_tracked.add_(1)
        step = (x.mean(0) - self.running_mean) / self.num_batches_tracked
        self.running_mean.add_(step)
        return (x - self.running_mean) * self.weight


def get_inputs():
    return [torch.randn(24, 96)]


def get_init_inputs():
    return [96]
