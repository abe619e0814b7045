import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, y_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=float("-inf"))
    y = tl.load(y_ptr + row * width + j, mask=mask, other=float("-inf"))
    top, highest = tl.max(x, axis=0), tl.max(y, axis=0)
    p = x - top - tl.log(tl.sum(tl.exp(x - top), axis=0))
    q = y - highest - tl.log(tl.sum(tl.exp(y - highest), axis=0))
    tl.store(out_ptr + row, tl.sum(tl.where(mask, tl.exp(p) * (p - q), 0.0), axis=0))


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(x.shape[0], device=x.device)
        width = x.shape[-1]
        rows[(x.numel() // width,)](x, y, out, width, BLOCK=triton.next_power_of_2(width))
        return out
