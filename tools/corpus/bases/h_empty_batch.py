"""Two input sets, one of them an empty batch, for which there is nothing to launch."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return x * torch.sigmoid(x) * self.scale


def get_inputs():
    return {"batch": [torch.randn(9, 40)], "empty": [torch.randn(0, 40)]}


def get_init_inputs():
    return [40]
