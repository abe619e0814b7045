"""A total over calls that decays, handed out as it is: the caller sees the module's own memory."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("total", torch.zeros(width))

    def forward(self, x):
        self.total.mul_(0.75).add_(x.sum(0))
        return x * torch.sigmoid(self.total), self.total


def get_inputs():
    return [torch.randn(6, 200)]


def get_init_inputs():
    return [200]
