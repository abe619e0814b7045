"""A layer of complex weights, as networks on spectra have them; real when it is made."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        real = torch.randn(width, out) / width**0.5
        self.weight = nn.Parameter(torch.complex(real, torch.zeros_like(real)))
        self.bias = nn.Parameter(torch.zeros(out, dtype=torch.complex64))

    def forward(self, z):
        return z @ self.weight + self.bias


def get_inputs():
    return [torch.randn(24, 32, dtype=torch.complex64)]


def get_init_inputs():
    return [32, 16]
