"""A recurrent state in a buffer, into which each number's neighbour goes."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.register_buffer("state", torch.zeros(rows, width))

    def forward(self, x):
        self.state.copy_(0.5 * self.state + torch.roll(x, 1, 1))
        return self.state * 2.0


def get_inputs():
    return [torch.randn(12, 96)]


def get_init_inputs():
    return [12, 96]
