"""Rows in groups of 32 as floats of eight bits, with a scale for each group."""

from __future__ import annotations

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        groups = x.view(x.shape[0], -1, 32)
        scale = groups.abs().amax(-1).clamp(min=1e-12) / 448
        codes = (groups / scale[..., None]).to(torch.float8_e4m3fn)
        return codes.view(x.shape), scale


def get_inputs():
    return [torch.randn(24, 128)]


def get_init_inputs():
    return []
