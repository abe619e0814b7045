import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def bias_tanh(y_ptr, b_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    y = tl.load(y_ptr + i, mask=mask, other=0.0) + tl.load(b_ptr + i % width, mask=mask, other=0.0)
    tl.store(out_ptr + i, libdevice.tanh(y), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)

    def forward(self, x):
        y = torch.nn.functional.linear(x, self.linear.weight)
        out = torch.empty_like(y)
        bias_tanh[(triton.cdiv(y.numel(), 256),)](y, self.linear.bias, out, y.numel(), y.shape[1], BLOCK=256)
        return out
