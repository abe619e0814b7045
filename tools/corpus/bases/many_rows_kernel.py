import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def many_rows(x_ptr, w_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    w = tl.load(w_ptr + i % width, mask=mask)
    tl.store(out_ptr + i, tl.maximum(x, 0.0) * w, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        many_rows[(triton.cdiv(n, 1024),)](x, self.weight, out, n, x.shape[-1], BLOCK=1024)
        return out
