"""Normalisation over rows whose natural inputs all have the same mean and variance."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(9, 600)]


def get_init_inputs():
    return [600]
