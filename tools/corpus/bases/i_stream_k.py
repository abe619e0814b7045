"""A product whose steps along K are dealt out evenly, whatever tile they belong to."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, width) / inner**0.5)

    def forward(self, x):
        return x @ self.weight


def get_inputs():
    return [torch.randn(40, 96)]


def get_init_inputs():
    return [96, 48]
