import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def dropout(x_ptr, out_ptr, n, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    kept = tl.rand(seed, i) > 0.25
    tl.store(out_ptr + i, tl.where(kept, x / 0.75, 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, seed):
        out = torch.empty_like(x)
        dropout[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), seed, BLOCK=256)
        return out
