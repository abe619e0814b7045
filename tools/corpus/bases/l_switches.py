"""A scale and a shift that two numbers of the call switch on."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(1 + 0.3 * torch.randn(width))
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x, scaled, shifted):
        y = torch.where(scaled != 0, x * self.scale, x)
        return torch.where(shifted != 0, y + self.shift, y)


def get_inputs():
    return [torch.randn(20, 48), *(torch.ones((), dtype=torch.int32) for _ in range(2))]


def get_init_inputs():
    return [48]
