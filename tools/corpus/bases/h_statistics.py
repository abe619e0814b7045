"""Normalisation by the statistics of the batch, which it adds to running ones; a counter counts the calls."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        mean = x.mean(0)
        self.mean.lerp_(mean, 0.1)
        self.calls += 1
        return (x - mean) / (x.var(0, unbiased=False) + 1e-5).sqrt()


def get_inputs():
    return [torch.randn(40, 24)]


def get_init_inputs():
    return [24]
