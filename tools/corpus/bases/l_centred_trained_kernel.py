import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable


@triton.jit
def sized(
    x_ptr, w_ptr, size_ptr, out_ptr, used_ptr, width, TRAINS: tl.constexpr, ROWS: tl.constexpr
):
    column = tl.program_id(0)
    i = tl.arange(0, ROWS)
    x = tl.load(x_ptr + i * width + column)
    if TRAINS:
        size = tl.sum(tl.abs(x), 0) / ROWS
        tl.store(size_ptr + column, tl.load(size_ptr + column) * 0.9 + 0.1 * size)
    else:
        size = tl.load(size_ptr + column)
    tl.store(used_ptr + column, size)
    y = x / (size + 0.1) * tl.load(w_ptr + column)
    tl.store(out_ptr + i * width + column, y)


@triton.jit
def sized_backward(
    g_ptr, x_ptr, w_ptr, used_ptr, dx_ptr, dw_ptr, width, TRAINS: tl.constexpr, ROWS: tl.constexpr
):
    column = tl.program_id(0)
    i = tl.arange(0, ROWS)
    g = tl.load(g_ptr + i * width + column)
    x = tl.load(x_ptr + i * width + column)
    w = tl.load(w_ptr + column)
    below = tl.load(used_ptr + column) + 0.1
    dx = g * w / below
    if TRAINS:
        of_size = -tl.sum(g * w * x, 0) / (below * below) / ROWS
        dx += of_size * ((x > 0.0).to(tl.float32) - (x < 0.0).to(tl.float32))
    tl.store(dx_ptr + i * width + column, dx)
    tl.store(dw_ptr + column, tl.sum(g * x, 0) / below)


class Sized(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, size, trains):
        rows, width = x.shape
        out, used = torch.empty_like(x), torch.empty_like(size)
        sized[(width,)](x, weight, size, out, used, width, TRAINS=trains, ROWS=rows)
        ctx.save_for_backward(x, weight, used)
        ctx.trains = trains
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        x, weight, used = ctx.saved_tensors
        rows, width = x.shape
        dx, dw = torch.empty_like(x), torch.empty_like(weight)
        sized_backward[(width,)](
            upstream.contiguous(), x, weight, used, dx, dw, width, TRAINS=ctx.trains, ROWS=rows
        )
        return dx, dw, None, None


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.register_buffer("size", torch.ones(width))

    def forward(self, x):
        return Sized.apply(x, self.weight, self.size, self.training)
