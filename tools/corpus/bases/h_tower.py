"""Layers in a list in a list: parameters whose names have many dots."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stages = nn.ModuleList(
            nn.ModuleList([nn.Linear(width, width), nn.LayerNorm(width)]) for _ in range(depth)
        )

    def forward(self, x):
        for linear, norm in self.stages:
            x = torch.relu(norm(linear(x))) + x
        return x


def get_inputs():
    return [torch.randn(10, 48)]


def get_init_inputs():
    return [48, 2]
