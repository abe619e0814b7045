import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
    capped = 20 * (2 * tl.sigmoid(x / 10) - 1)
    away = tl.abs((row % width - j).to(tl.float32))
    s = tl.where(mask, capped - 0.5 * away, float("-inf"))
    e = tl.exp(s - tl.max(s, axis=0))
    tl.store(out_ptr + row * width + j, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        width = x.shape[-1]
        rows[(x.numel() // width,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
