"""Attention weights under a causal mask: infinities go in, and half of the output is exactly zero."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        mask = torch.full((size, size), float("-inf")).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, scores):
        return torch.softmax(scores + self.mask, dim=-1)


def get_inputs():
    return [torch.randn(3, 33, 33)]


def get_init_inputs():
    return [33]
