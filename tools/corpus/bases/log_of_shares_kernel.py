import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def log_of(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=1.0)
    y = tl.log(x)
    tl.store(out_ptr + i, y, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        log_of[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
