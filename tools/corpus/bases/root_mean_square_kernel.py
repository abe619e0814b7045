import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def root_mean_square(x_ptr, w_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
    w = tl.load(w_ptr + j, mask=mask, other=0.0)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / width + 1e-6) * w
    tl.store(out_ptr + row * width + j, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(1 + torch.randn(width) / 8)

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, width = x.shape
        root_mean_square[(rows,)](x, self.weight, out, width, BLOCK=triton.next_power_of_2(width))
        return out
