"""One program for each group: its largest number, then the codes."""

from __future__ import annotations

import torch
from torch import nn
import triton
import triton.language as tl


@triton.jit
def in_eight_bits(x_ptr, code_ptr, scale_ptr, G: tl.constexpr):
    at = tl.program_id(0) * G + tl.arange(0, G)
    x = tl.load(x_ptr + at)
    largest = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-12)
    scale = tl.div_rn(largest, 448.0)
    tl.store(code_ptr + at, tl.div_rn(x, scale).to(tl.float8e4nv))
    tl.store(scale_ptr + tl.program_id(0), scale)


class ModelNew(nn.Module):
    def forward(self, x):
        codes = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
        scale = torch.empty(x.shape[0], x.shape[1] // 32, device=x.device)
        in_eight_bits[(scale.numel(),)](x.contiguous(), codes, scale, G=32)
        return codes, scale
