import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def root(x):
    if x < -2.0:
        y = tl.exp(x)
    elif x < 1.0:
        y = x * 0.5
    else:
        y = tl.log(x)
    rounds = 0
    change = x * 0.0 + 1.0
    while (tl.abs(change) > 1e-7) & (rounds < 8):
        e = tl.exp(y)
        change = (y + e - x) / (1.0 + e)
        y -= change
        rounds += 1
    return y


@triton.jit
def root_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.map_elementwise(root, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        root_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
