"""A batched product that reads a transposed operand by its strides."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b.transpose(1, 2)


def get_inputs():
    return [torch.randn(3, 20, 32), torch.randn(3, 24, 32)]


def get_init_inputs():
    return []
