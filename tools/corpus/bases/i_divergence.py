"""Kullback-Leibler divergence of rows of logits."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        p, q = torch.log_softmax(x, -1), torch.log_softmax(y, -1)
        return (p.exp() * (p - q)).sum(-1)


def get_inputs():
    return [torch.randn(15, 80), torch.randn(15, 80)]


def get_init_inputs():
    return []
