"""Magnitude and phase of a spectrum, apart: the modulus of each bin, and the bin divided by it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, z):
        return z.abs(), torch.sgn(z)


def get_inputs():
    return [torch.randn(32, 96, dtype=torch.complex64)]


def get_init_inputs():
    return []
