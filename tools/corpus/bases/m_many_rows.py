"""Many rows, which no tile divides: fewer of them are executed."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return torch.relu(x) * self.weight


def get_inputs():
    return [torch.randn(40010, 256)]


def get_init_inputs():
    return [256]
