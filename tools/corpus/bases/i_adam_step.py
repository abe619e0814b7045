"""One step of Adam with decayed weights: three results of three states."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, g, m, v):
        mean, square = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        step = mean / 0.1 / (torch.sqrt(square / 0.001) + 1e-8)
        return x - 0.01 * (step + 0.1 * x), mean, square


def get_inputs():
    return [
        torch.randn(6, 90),
        torch.randn(6, 90),
        torch.randn(6, 90) / 10,
        torch.rand(6, 90) / 100,
    ]


def get_init_inputs():
    return []
