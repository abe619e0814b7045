import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def codes(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0.0)
    tl.store(out_ptr + i, (x * 4096.0).to(tl.int32).to(tl.int8), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x, dtype=torch.int8)
        n = x.numel()
        codes[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)
        return out
