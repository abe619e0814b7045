"""A product of eight-bit floats, a scale for each row and group of columns and one for each square of weights."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner, width):
        super().__init__()
        weight = torch.randn(width, inner).to(torch.float8_e4m3fn)
        self.register_buffer("weight", weight)
        self.scale = nn.Parameter(torch.rand(width // 32, inner // 32) / 8 + 0.02)

    def forward(self, x, scale):
        wide = x.float() * scale.repeat_interleave(32, 1)
        weight = self.weight.float() * self.scale.repeat_interleave(32, 0).repeat_interleave(32, 1)
        return (wide @ weight.T).to(torch.bfloat16)


def get_inputs():
    return [torch.randn(20, 128).to(torch.float8_e4m3fn), torch.rand(20, 4) + 0.1]


def get_init_inputs():
    return [128, 64]
