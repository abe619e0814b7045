"""Columns in units of a largest size that decays and is kept in a buffer, as quantisers keep it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("largest", torch.ones(width))

    def forward(self, x):
        self.largest.copy_(torch.maximum(self.largest * 0.9, x.abs().amax(0)))
        return x * (127 / self.largest)


def get_inputs():
    return [torch.randn(24, 48)]


def get_init_inputs():
    return [48]
