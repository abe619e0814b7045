"""A long sum over each row: whatever is left out or rounded hides in a loose tolerance."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=1)


def get_inputs():
    return [torch.rand(7, 5000)]


def get_init_inputs():
    return []
