"""A product in bfloat16 over a long inner dimension, where a narrow accumulator loses most."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner, dtype=torch.bfloat16) / inner**0.5)

    def forward(self, x):
        return x @ self.weight.t()


def get_inputs():
    return [torch.randn(16, 2048, dtype=torch.bfloat16)]


def get_init_inputs():
    return [2048, 16]
