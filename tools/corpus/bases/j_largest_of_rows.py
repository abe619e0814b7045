"""Where the largest number of each row stands."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.argmax(-1)


def get_inputs():
    return [torch.randn(200, 32)]


def get_init_inputs():
    return []
