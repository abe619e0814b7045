"""The library convolves; one kernel adds the shift and applies the activation."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shifted_hardswish(x_ptr, shift_ptr, out_ptr, n, inner, channels, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    shift = tl.load(shift_ptr + at // inner % channels, mask=mask, other=0.0)
    x = tl.load(x_ptr + at, mask=mask, other=0.0) + shift
    tl.store(out_ptr + at, x * tl.minimum(tl.maximum(x + 3.0, 0.0), 6.0) / 6.0, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 3, padding="same")
        self.shift = nn.Parameter(torch.randn(out, 1, 1))

    def forward(self, x):
        x = self.conv(x).contiguous()
        out = torch.empty_like(x)
        n, inner = x.numel(), x.shape[2] * x.shape[3]
        shifted_hardswish[(triton.cdiv(n, 256),)](
            x, self.shift, out, n, inner, x.shape[1], BLOCK=256
        )
        return out
