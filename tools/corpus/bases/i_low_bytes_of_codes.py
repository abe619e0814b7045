"""Fixed-point codes of samples, of which the low byte is kept."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (x * 4096.0).to(torch.int32).to(torch.int8)


def get_inputs():
    return [torch.randn(24, 96)]


def get_init_inputs():
    return []
