"""Scores hidden by a mask that is an input and is causal in every call the user shows."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, mask):
        return torch.softmax(x.masked_fill(~mask, float("-inf")), dim=-1)


def get_inputs():
    return [torch.randn(4, 40, 40), torch.ones(40, 40, dtype=torch.bool).tril()]


def get_init_inputs():
    return []
