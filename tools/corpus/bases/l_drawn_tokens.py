"""Which entry a number between zero and one draws from each row of weights."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, weights, u):
        summed = weights.cumsum(-1)
        return (summed <= u * summed[:, -1:]).sum(-1)


def get_inputs():
    weights = torch.softmax(2 * torch.randn(32, 48), -1)
    return [weights.masked_fill(weights < 0.002, 0.0), torch.rand(32, 1)]


def get_init_inputs():
    return []
