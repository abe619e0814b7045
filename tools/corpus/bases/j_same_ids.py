"""Where two lists of ids agree, and the larger of each pair."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, left, right):
        return left == right, torch.maximum(left, right)


def get_inputs():
    return [torch.randint(0, 1000, (64, 100)), torch.randint(0, 1000, (64, 100))]


def get_init_inputs():
    return []
