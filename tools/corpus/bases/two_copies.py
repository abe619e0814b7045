"""Two results of equal values: the caller may write to either."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = torch.relu(x) * self.weight
        return y, y.clone()


def get_inputs():
    return [torch.randn(6, 200)]


def get_init_inputs():
    return [200]
