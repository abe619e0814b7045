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
    tl.store(out_ptr + row * width + j, tl.cumsum(x, 0, reverse=True), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        width = x.shape[-1]
        rows[(x.numel() // width,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
