"""Every pixel four times, by index arithmetic on the output."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.interpolate(x[None], scale_factor=2, mode="nearest")[0]


def get_inputs():
    return [torch.randn(3, 8, 20)]


def get_init_inputs():
    return []
