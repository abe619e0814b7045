"""A running total that keeps in a buffer what each of its sums has lost."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(640))
        self.register_buffer("lost", torch.zeros(640))

    def forward(self, x):
        step = x - self.lost
        total = self.total + step
        self.lost.copy_((total - self.total) - step)
        self.total.copy_(total)
        return total


def get_inputs():
    return [torch.randn(640)]


def get_init_inputs():
    return []
