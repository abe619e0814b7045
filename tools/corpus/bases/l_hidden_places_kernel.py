import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def weighed(x_ptr, seen_ptr, w_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask)
    seen = tl.load(seen_ptr + row * width + j, mask=mask, other=0)
    y = tl.where(seen != 0, x * tl.load(w_ptr + j, mask=mask), 0.0)
    tl.store(out_ptr + row * width + j, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x, seen):
        out = torch.empty_like(x)
        rows, width = x.shape
        bytes_of = seen.contiguous().view(torch.uint8)
        block = triton.next_power_of_2(width)
        weighed[(rows,)](x, bytes_of, self.weight, out, width, BLOCK=block)
        return out
