"""A program for each row, so that an empty batch has a grid of none."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_silu(x_ptr, scale_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < width
    x = tl.load(x_ptr + row * width + column, mask=mask, other=0.0)
    scale = tl.load(scale_ptr + column, mask=mask, other=0.0)
    tl.store(out_ptr + row * width + column, x * tl.sigmoid(x) * scale, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x):
        out = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        scaled_silu[(x.shape[0],)](x, self.scale, out, x.shape[1], BLOCK=block)
        return out
