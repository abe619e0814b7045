"""A product of bfloat16 by few programs that walk the tiles in groups."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(72, 64, dtype=torch.bfloat16), torch.randn(64, 80, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
