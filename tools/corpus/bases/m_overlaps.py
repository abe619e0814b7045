"""How much of two boxes is common to both, of each with each; boxes without an area are refused."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        if (a[:, 2:] <= a[:, :2]).any() or (b[:, 2:] <= b[:, :2]).any():
            raise ValueError("boxes must have an area")
        low = torch.maximum(a[:, None, :2], b[None, :, :2])
        high = torch.minimum(a[:, None, 2:], b[None, :, 2:])
        common = (high - low).clamp(min=0).prod(-1)
        areas = (a[:, 2:] - a[:, :2]).prod(-1)[:, None] + (b[:, 2:] - b[:, :2]).prod(-1)
        return common / (areas - common)


def get_inputs():
    def boxes(count):
        centre, half = 0.5 + 0.05 * torch.randn(count, 2), 0.2 + 0.2 * torch.rand(count, 2)
        return torch.cat([centre - half, centre + half], -1)

    return [boxes(24), boxes(24)]


def get_init_inputs():
    return []
