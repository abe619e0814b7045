"""Numbers that a mask leaves out, the others times a weight."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x, seen):
        return torch.where(seen, x * self.weight, 0.0)


def get_inputs():
    return [torch.randn(20, 48), torch.rand(20, 48) < 0.5]


def get_init_inputs():
    return [48]
