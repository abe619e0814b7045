import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def bias_mish(x_ptr, bias_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask) + tl.load(bias_ptr + i % width, mask=mask)
    soft = tl.where(x > 20.0, x, libdevice.log1p(libdevice.exp(tl.minimum(x, 20.0))))
    tl.store(out_ptr + i, x * libdevice.tanh(soft), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        bias_mish[(triton.cdiv(n, 256),)](x, self.bias, out, n, x.shape[-1], BLOCK=256)
        return out
