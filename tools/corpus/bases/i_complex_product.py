"""Pairs of real and imaginary parts multiplied, taken apart and joined again."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        a, b = torch.view_as_complex(x), torch.view_as_complex(y)
        return torch.view_as_real(a * b)


def get_inputs():
    return [torch.randn(6, 32, 2), torch.randn(6, 32, 2)]


def get_init_inputs():
    return []
