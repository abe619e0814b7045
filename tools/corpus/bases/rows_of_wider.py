"""Scales rows that are a part of a wider tensor: between them lies memory that is not this module's."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return torch.sigmoid(x) * self.weight


def get_inputs():
    return [torch.randn(16, 128)[:, :64]]


def get_init_inputs():
    return [64]
