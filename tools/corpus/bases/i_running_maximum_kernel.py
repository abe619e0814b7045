import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def rows(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    j = tl.program_id(0) * width + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < width
    x = tl.load(x_ptr + j, mask=mask, other=float("-inf"))
    tl.store(out_ptr + j, tl.associative_scan(x, 0, larger), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
