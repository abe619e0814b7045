import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_gate(x_ptr, g_ptr, w_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    g = tl.load(g_ptr + i, mask=mask)
    w = tl.load(w_ptr + i % width, mask=mask)
    tl.store(out_ptr + i, x * tl.sigmoid(x) * g * w, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, g):
        out = torch.empty_like(x)
        n = x.numel()
        silu_gate[(triton.cdiv(n, 256),)](x, g, self.weight, out, n, x.shape[-1], BLOCK=256)
        return out
