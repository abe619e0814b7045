"""Whether areas of whole sides are within their limits, exact."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, width, height, limit):
        return width * height <= limit


def get_inputs():
    sides = [torch.randint(1, 20000, (1024,)) for _ in range(2)]
    return [*sides, torch.randint(1, 400_000_000, (1024,))]


def get_init_inputs():
    return []
