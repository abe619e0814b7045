"""Inputs whose draws have properties that the module does not ask for: rates above zero, targets of 0 and 1, rows that sum to one."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, width))
        self.level = nn.Parameter(0.3 + torch.rand(width))

    def forward(self, x, rate, target, share, ids, temperature):
        warm = torch.tanh(x / temperature)
        fired = torch.where(x >= self.level, warm, -warm)
        blended = target * fired + (1 - target) * torch.sigmoid(rate)
        part = share / share.sum(-1, keepdim=True) * share.shape[-1]
        return blended + part + self.table[ids]


def get_inputs():
    x, rate = torch.randn(40, 96), 2 * torch.rand(40, 96)
    target, share = (torch.rand(40, 96) < 0.5).float(), torch.softmax(torch.randn(40, 96), -1)
    return [x, rate, target, share, torch.randint(0, 100, (40,)), torch.tensor(0.7)]


def get_init_inputs():
    return [128, 96]
