import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def unit_rows(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + j, mask=j < width, other=0.0)
    length = tl.maximum(tl.sqrt(tl.sum(x * x, 0)), 1e-12)
    y = x / length
    tl.store(out_ptr + row * width + j, y, mask=j < width)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, width = x.shape
        unit_rows[(rows,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
