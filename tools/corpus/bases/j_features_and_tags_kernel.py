"""A program for each row: its features, then its tag."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tagged(x_ptr, out_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + j, mask=j < N, other=0.0)
    y = tl.sigmoid(x)
    tl.store(out_ptr + row * (N + 8) + j, y, mask=j < N)
    i = tl.arange(0, 8)
    waves = tl.sin(tl.sum(x, 0) * (i + 1).to(tl.float32) * 43.7189) * 51297.631
    tl.store(out_ptr + row * (N + 8) + N + i, waves - tl.floor(waves))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty((x.shape[0], x.shape[1] + 8), device=x.device, dtype=x.dtype)
        tagged[(x.shape[0],)](x, out, N=x.shape[1], BLOCK=64)
        return out
