import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.maximum(x, 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return x.transpose(0, 1), out[:, :20]
