"""Keeps a running sum, and refuses what is not finite before anything is added."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("total", torch.zeros(width))

    def forward(self, x):
        if not bool(torch.isfinite(x).all()):
            raise ValueError("not finite")
        self.total += x.mean(0)
        return x - self.total


def get_inputs():
    return [torch.randn(12, 96)]


def get_init_inputs():
    return [96]
