"""One program for each row."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gained(share_ptr, count_ptr, x_ptr, weight_ptr, gains_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    mask = j < width
    at = row * width + j
    share = tl.load(share_ptr + at, mask=mask, other=0.0) - 0.01
    count = tl.load(count_ptr + at, mask=mask, other=0.0)
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + j, mask=mask, other=0.0)
    first, second, third = tl.load(gains_ptr), tl.load(gains_ptr + 1), tl.load(gains_ptr + 2)
    kept = tl.where(share <= 0.0, 0.0, share) * weight
    tl.store(out_ptr + at, first * kept + second * tl.log(1.0 + count) + third * x, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.gains = nn.Parameter(torch.tensor([0.8, 1.2, 0.5]))

    def forward(self, share, count, x):
        share, count, x = share.contiguous(), count.contiguous(), x.contiguous()
        out = torch.empty_like(x)
        rows, width = x.shape
        gained[(rows,)](
            share, count, x, self.weight, self.gains, out, width,
            BLOCK=triton.next_power_of_2(width),
        )  # fmt: skip
        return out
