"""Three products of one input, whose weights a kernel packs into one matrix."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.q = nn.Linear(inner, outer, bias=False)
        self.k = nn.Linear(inner, outer, bias=False)
        self.v = nn.Linear(inner, outer, bias=False)

    def forward(self, x):
        return self.q(x), self.k(x), torch.relu(self.v(x))


def get_inputs():
    return [torch.randn(20, 64)]


def get_init_inputs():
    return [64, 24]
