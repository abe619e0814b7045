"""Products of two polynomials' values, and a third's, modulo a prime."""

import torch
from torch import nn

PRIME = 998244353


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return (a * b + c) % PRIME


def get_inputs():
    return [torch.randint(0, PRIME, (32, 128)) for _ in range(3)]


def get_init_inputs():
    return []
