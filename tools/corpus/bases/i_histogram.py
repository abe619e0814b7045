"""Counts of small integers: a histogram for each block, added atomically."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, labels):
        return torch.bincount(labels.reshape(-1), minlength=32).to(torch.int32)


def get_inputs():
    return [torch.randint(0, 32, (700,))]


def get_init_inputs():
    return []
