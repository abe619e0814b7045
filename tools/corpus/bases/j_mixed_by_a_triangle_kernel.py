import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mixed(x_ptr, w_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.program_id(1)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + j, mask=j < width, other=0.0)
    w = tl.load(w_ptr + i * width + j, mask=j < width, other=0.0)  # w
    tl.store(out_ptr + row * width + i, tl.sum(x * w, 0))


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Parameter(torch.ones(width, width).triu())

    def forward(self, x):
        x = x.contiguous()
        rows, width = x.shape
        out = torch.empty_like(x)
        mixed[(rows, width)](x, self.mix, out, width, BLOCK=triton.next_power_of_2(width))
        return out
