"""Rows of eight-bit integers with the scale of each row."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
        return torch.clamp(torch.floor(x / scale + 0.5), -127, 127).to(torch.int32), scale


def get_inputs():
    return [torch.randn(14, 60)]


def get_init_inputs():
    return []
