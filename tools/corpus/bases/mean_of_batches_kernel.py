"""One program for each block of columns: the mean moves on, then all rows are normalised by it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def moved_on(x_ptr, w_ptr, mean_ptr, seen_ptr, out_ptr, rows, n, R: tl.constexpr, C: tl.constexpr):
    column = tl.program_id(0) * C + tl.arange(0, C)
    row = tl.arange(0, R)
    known = column < n
    inside = (row < rows)[:, None] & known[None, :]
    at = row[:, None] * n + column[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    old = tl.load(mean_ptr + column, mask=known, other=0.0)
    seen = tl.load(seen_ptr).to(tl.float32)
    mean = old + (tl.sum(x, axis=0) / rows - old) / seen
    w = tl.load(w_ptr + column, mask=known, other=0.0)
    tl.store(mean_ptr + column, mean, mask=known)
    tl.store(out_ptr + at, (x - mean[None, :]) * w[None, :], mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        x = x.contiguous()
        self.num_batches_tracked.add_(1)
        out = torch.empty_like(x)
        rows, n = x.shape
        state = self.weight, self.running_mean, self.num_batches_tracked
        height = triton.next_power_of_2(rows)
        moved_on[(triton.cdiv(n, 32),)](x, *state, out, rows, n, R=height, C=32)
        return out
