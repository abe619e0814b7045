"""Two hyperbolic tangents, some columns of which have small weights."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a = nn.Parameter(torch.randn(d))
        self.b = nn.Parameter(torch.randn(d))
    def forward(self, x):
        return torch.tanh(x * self.a), torch.tanh(x * self.b)
def get_inputs():
    return [torch.randn(32, 64)]
def get_init_inputs():
    return [64]
