"""Bins correlated with learned complex ones, and their energies: what is sent back is conjugated."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, dtype=torch.complex64))

    def forward(self, z):
        y = z * self.weight.conj()
        return y, y.real.square() + y.imag.square()


def get_inputs():
    return [torch.randn(12, 64, dtype=torch.complex64)]


def get_init_inputs():
    return [64]
