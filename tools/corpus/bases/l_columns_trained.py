"""A squashed matrix that lies column by column, for candidates that are judged with their gradients."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return x * torch.sigmoid(x * self.weight)


def get_inputs():
    return [torch.randn(32, 24).t()]


def get_init_inputs():
    return [32]
