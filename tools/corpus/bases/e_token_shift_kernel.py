import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shift(x_ptr, shifted_ptr, sum_ptr, out_ptr, rows, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask)
    total = x + tl.load(shifted_ptr + (row + rows - 1) % rows * width + j, mask=mask)
    tl.store(sum_ptr + row * width + j, total, mask=mask)
    tl.store(out_ptr + row * width + j, total * 0.5, mask=mask)


@triton.jit
def put_back(sum_ptr, x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(sum_ptr + i, mask=i < n), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, shifted):
        rows, width = x.shape
        # Other programs may read what would be written to, where both are one tensor.
        total = torch.empty_like(x)
        out = torch.empty_like(x)
        shift[(rows,)](x, shifted, total, out, rows, width, BLOCK=triton.next_power_of_2(width))
        put_back[(triton.cdiv(x.numel(), 256),)](total, x, x.numel(), BLOCK=256)
        return out
