"""A transposition through tiles made with block pointers."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (2 * x).t().contiguous()


def get_inputs():
    return [torch.randn(37, 50)]


def get_init_inputs():
    return []
