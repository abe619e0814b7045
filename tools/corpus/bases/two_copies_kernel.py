import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def two_copies(x_ptr, w_ptr, one_ptr, other_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    y = tl.maximum(tl.load(x_ptr + i, mask=mask), 0.0) * tl.load(w_ptr + i % width, mask=mask)
    tl.store(one_ptr + i, y, mask=mask)
    tl.store(other_ptr + i, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        one, other = torch.empty_like(x), torch.empty_like(x)
        n = x.numel()
        two_copies[(triton.cdiv(n, 256),)](x, self.weight, one, other, n, x.shape[-1], BLOCK=256)
        return one, other
