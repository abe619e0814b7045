"""Rows of bfloat16 after a SiLU gate as eight-bit floats, with one scale for each group of columns."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, gate, up):
        x = torch.nn.functional.silu(gate.float()) * up.float()
        groups = x.unflatten(-1, (-1, 32))
        scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 448
        return (groups / scale).to(torch.float8_e4m3fn).flatten(-2), scale.squeeze(-1)


def get_inputs():
    return [torch.randn(12, 96, dtype=torch.bfloat16) for _ in range(2)]


def get_init_inputs():
    return []
