"""Totals of columns in every second number of a table, whose other numbers are somebody else's, and which columns were large."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("total", torch.zeros(width, 2)[:, 0])
        self.register_buffer("large", torch.zeros(width, dtype=torch.bool))

    def forward(self, x):
        self.total.mul_(0.75).add_(x.sum(0))
        self.large.logical_or_((x > 2.0).any(0))
        return torch.where(self.large, x, 0.5 * x) + self.total


def get_inputs():
    return [torch.randn(6, 200)]


def get_init_inputs():
    return [200]
