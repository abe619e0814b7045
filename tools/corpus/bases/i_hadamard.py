"""The Walsh-Hadamard transform of each row, by pairs."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        y = x
        for n in (1, 2, 4, 8, 16, 32):
            y = y.reshape(-1, 64 // (2 * n), 2, n)
            y = torch.stack((y[:, :, 0] + y[:, :, 1], y[:, :, 0] - y[:, :, 1]), dim=2).reshape(
                -1, 64
            )
        return y / 8


def get_inputs():
    return [torch.randn(12, 64)]


def get_init_inputs():
    return []
