"""Scales that are ones where they are made, and others once a checkpoint is loaded."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.register_buffer("scale", torch.ones(width))
        self.register_buffer("zero", torch.full((width,), 8, dtype=torch.int32))

    def forward(self, x):
        return (torch.tanh(x * self.weight) - self.zero.to(x.dtype)) * self.scale


def get_inputs():
    return [torch.randn(16, 96)]


def get_init_inputs():
    return [96]
