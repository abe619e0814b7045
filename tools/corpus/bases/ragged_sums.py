"""Sums over stretches of rows whose ends are given as offsets, the same in every call the user shows."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, offsets):
        before = torch.nn.functional.pad(x.cumsum(0), (0, 0, 1, 0))
        return before[offsets[1:]] - before[offsets[:-1]]


def get_inputs():
    return [torch.randn(30, 40), torch.tensor([0, 4, 9, 17, 30])]


def get_init_inputs():
    return []
