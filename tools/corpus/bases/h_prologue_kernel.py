import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_scaled(x_ptr, s_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0.0)
    s = tl.load(s_ptr + i % width, mask=mask, other=0.0)
    tl.store(out_ptr + i, x / (1.0 + tl.exp(-x)) * s, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(inner))
        self.weight = nn.Parameter(torch.empty(inner, outer))

    def forward(self, x):
        x = x.contiguous()
        head = torch.empty_like(x)
        silu_scaled[(triton.cdiv(x.numel(), 256),)](x, self.scale, head, x.numel(), x.shape[-1], BLOCK=256)
        return torch.matmul(head, self.weight)
