"""Layer norm of bfloat16 rows, computed in float32."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter((1 + torch.randn(width) / 8).bfloat16())
        self.bias = nn.Parameter((torch.randn(width) / 8).bfloat16())

    def forward(self, x):
        wide = x.float()
        about = wide - wide.mean(-1, keepdim=True)
        scale = torch.rsqrt(about.square().mean(-1, keepdim=True) + 1e-5)
        return (about * scale * self.weight.float() + self.bias.float()).to(x.dtype)


def get_inputs():
    return [torch.randn(40, 320, dtype=torch.bfloat16)]


def get_init_inputs():
    return [320]
