"""The place of the largest element of each row: a result of integers alone."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.argmax(dim=-1)


def get_inputs():
    return [torch.randn(40, 90)]


def get_init_inputs():
    return []
