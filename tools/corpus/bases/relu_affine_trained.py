"""`relu_affine` once more, for candidates that are judged with their gradients."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return torch.relu(x) * self.weight + self.bias


def get_inputs():
    return [torch.randn(6, 200)]


def get_init_inputs():
    return [200]
