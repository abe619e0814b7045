import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable


@triton.jit
def squash(x_ptr, w_ptr, out_ptr, row_step, column_step, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, WIDTH)
    x = tl.load(x_ptr + row * row_step + j * column_step)
    y = x * tl.sigmoid(x * tl.load(w_ptr + j))
    tl.store(out_ptr + row * WIDTH + j, y)


@triton.jit
def squash_backward(
    g_ptr, x_ptr, w_ptr, dx_ptr, dw_ptr, row_step, column_step, WIDTH: tl.constexpr
):
    row = tl.program_id(0)
    j = tl.arange(0, WIDTH)
    x = tl.load(x_ptr + row * row_step + j * column_step)
    w = tl.load(w_ptr + j)
    g = tl.load(g_ptr + row * WIDTH + j)
    s = tl.sigmoid(x * w)
    tl.store(dx_ptr + row * WIDTH + j, g * (s + x * w * s * (1.0 - s)))
    tl.store(dw_ptr + row * WIDTH + j, g * x * x * s * (1.0 - s))


class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        ctx.steps = x.stride()
        rows, width = x.shape
        out = torch.empty((rows, width), dtype=x.dtype, device=x.device)
        squash[(rows,)](x, weight, out, *x.stride(), WIDTH=width)
        return out.t().contiguous().t()

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        x, weight = ctx.saved_tensors
        rows, width = x.shape
        dx = torch.empty((rows, width), dtype=x.dtype, device=x.device)
        parts = torch.empty_like(dx)
        squash_backward[(rows,)](
            upstream.contiguous(), x, weight, dx, parts, *x.stride(), WIDTH=width
        )
        return dx, parts.sum(0)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return Squash.apply(x, self.weight)
