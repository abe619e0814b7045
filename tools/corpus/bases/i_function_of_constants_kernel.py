import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.constexpr_function
def half_of(size):
    return max(16, size // 2)


@triton.jit
def root(x_ptr, out_ptr, n, SIZE: tl.constexpr):
    BLOCK: tl.constexpr = half_of(SIZE)
    for part in tl.static_range(SIZE // BLOCK):
        i = tl.program_id(0) * SIZE + part * BLOCK + tl.arange(0, BLOCK)
        tl.store(
            out_ptr + i, tl.sqrt(tl.abs(tl.load(x_ptr + i, mask=i < n, other=0.0))), mask=i < n
        )


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        root[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), SIZE=256)
        return out
