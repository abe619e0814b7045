"""A block size worked out by a function of constants while the kernel compiles."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.abs().sqrt()


def get_inputs():
    return [torch.randn(9, 77)]


def get_init_inputs():
    return []
