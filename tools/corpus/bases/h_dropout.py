"""A linear layer and dropout, which does nothing outside of training."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x):
        return torch.tanh(self.dropout(self.linear(x)))


def get_inputs():
    return [torch.randn(18, 32)]


def get_init_inputs():
    return [32, 20]
