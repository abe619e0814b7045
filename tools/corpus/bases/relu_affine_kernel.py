import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_affine(x_ptr, w_ptr, b_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    w = tl.load(w_ptr + i % width, mask=mask)
    b = tl.load(b_ptr + i % width, mask=mask)
    tl.store(out_ptr + i, tl.maximum(x, 0.0) * w + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_affine[(triton.cdiv(n, 256),)](x, self.weight, self.bias, out, n, x.shape[-1], BLOCK=256)
        return out
