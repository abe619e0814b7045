"""A step whose lost digits are kept, and made good in the next."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, weight, lost, gradient):
        step = -1e-3 * gradient - lost
        moved = weight + step
        return moved, (moved - weight) - step


def get_inputs():
    return [torch.randn(640), torch.randn(640) * 1e-8, torch.randn(640)]


def get_init_inputs():
    return []
