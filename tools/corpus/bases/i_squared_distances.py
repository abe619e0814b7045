"""Squared distances of all pairs of points."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return (x[:, None] - y[None]).square().sum(-1)


def get_inputs():
    return [torch.randn(18, 24), torch.randn(30, 24)]


def get_init_inputs():
    return []
