"""Two inputs of either sign, one parameter: elementwise, so that a library could do all of it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, g):
        return torch.nn.functional.silu(x) * g * self.weight


def get_inputs():
    return [torch.randn(9, 130), torch.randn(9, 130)]


def get_init_inputs():
    return [130]
