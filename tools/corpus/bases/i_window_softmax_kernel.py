import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    away = row % width - j
    seen = (away >= 0) & (away < 9)
    x = tl.load(x_ptr + row * width + j, mask=mask & seen, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * width + j, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        width = x.shape[-1]
        rows[(x.numel() // width,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
