"""Sums over time in which each head forgets by a factor of its own, learned between zero and one."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor([0.97, 0.9, 0.84, 0.75, 0.6]))

    def forward(self, x):
        ages = torch.arange(x.shape[-1] - 1, -1, -1, device=x.device)
        return (x * self.factor[:, None] ** ages).sum(-1)


def get_inputs():
    return [torch.randn(6, 5, 40)]


def get_init_inputs():
    return []
