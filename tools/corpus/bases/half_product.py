"""A product in bfloat16, whose own error is large: more exact candidates must not be refused."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner, dtype=torch.bfloat16) / inner**0.5)

    def forward(self, x):
        return x @ self.weight.t()


def get_inputs():
    return [torch.randn(24, 256, dtype=torch.bfloat16)]


def get_init_inputs():
    return [256, 40]
