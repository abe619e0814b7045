import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable


@triton.jit
def clamped(x_ptr, w_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    z = tl.load(x_ptr + i, mask=mask) * tl.load(w_ptr + i % width, mask=mask)
    tl.store(out_ptr + i, tl.minimum(tl.maximum(z, -2.0), 2.0), mask=mask)


@triton.jit
def clamped_backward(g_ptr, x_ptr, w_ptr, dx_ptr, dw_ptr, rows, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < width
    w = tl.load(w_ptr + i, mask=mask)
    dw = tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        x = tl.load(x_ptr + row * width + i, mask=mask)
        g = tl.load(g_ptr + row * width + i, mask=mask)
        z = x * w
        g = tl.where((z >= -2.0) & (z <= 2.0), g, 0.0)
        tl.store(dx_ptr + row * width + i, g * w, mask=mask)
        dw += g * x
    tl.store(dw_ptr + i, dw, mask=mask)


class Clamped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        out = torch.empty_like(x)
        n = x.numel()
        clamped[(triton.cdiv(n, 256),)](x, weight, out, n, x.shape[-1], BLOCK=256)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        x, weight = ctx.saved_tensors
        g = upstream.contiguous()
        dx, dw = torch.empty_like(x), torch.empty_like(weight)
        width = x.shape[-1]
        grid = (triton.cdiv(width, 64),)
        clamped_backward[grid](g, x, weight, dx, dw, x.numel() // width, width, BLOCK=64)
        return dx, dw


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x):
        return Clamped.apply(x, self.weight)
