"""A hyperbolic tangent, which kernels write with exponentials that cancel near zero."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x)


def get_inputs():
    return [torch.randn(16, 90)]


def get_init_inputs():
    return []
