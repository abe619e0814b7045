import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, y_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    at = row * 2 + tl.arange(0, 2)
    a = tl.load(x_ptr + at)
    b = tl.load(y_ptr + at)
    re, im = tl.split(a)
    other_re, other_im = tl.split(b)
    tl.store(out_ptr + at, tl.join(re * other_re - im * other_im, re * other_im + im * other_re))


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        width = x.shape[-1]
        rows[(x.numel() // width,)](x, y, out, width, BLOCK=triton.next_power_of_2(width))
        return out
