import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_mean(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + j, mask=j < width, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0) / width)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)

    def forward(self, x):
        product = self.linear(x)
        out = torch.empty(product.shape[0], device=x.device, dtype=x.dtype)
        row_mean[(product.shape[0],)](product, out, product.shape[1], BLOCK=triton.next_power_of_2(product.shape[1]))
        return out
