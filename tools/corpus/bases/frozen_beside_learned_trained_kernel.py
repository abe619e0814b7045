import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable


@triton.jit
def scaled(x_ptr, base_ptr, delta_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    mask = j < width
    scale = tl.load(base_ptr + j, mask=mask) + tl.load(delta_ptr + j, mask=mask)
    x = tl.load(x_ptr + row * width + j, mask=mask)
    tl.store(out_ptr + row * width + j, tl.abs(x) * scale, mask=mask)


@triton.jit
def scaled_backward(g_ptr, x_ptr, base_ptr, delta_ptr, dx_ptr, ds_ptr, rows, width, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    mask = j < width
    scale = tl.load(base_ptr + j, mask=mask) + tl.load(delta_ptr + j, mask=mask)
    ds = tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        x = tl.load(x_ptr + row * width + j, mask=mask)
        g = tl.load(g_ptr + row * width + j, mask=mask)
        sign = tl.where(x > 0.0, 1.0, tl.where(x < 0.0, -1.0, 0.0))
        tl.store(dx_ptr + row * width + j, g * scale * sign, mask=mask)
        ds += g * tl.abs(x)
    tl.store(ds_ptr + j, ds, mask=mask)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, base, delta):
        ctx.save_for_backward(x, base, delta)
        out = torch.empty_like(x)
        scaled[(x.shape[0],)](x, base, delta, out, x.shape[1], BLOCK=64)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        x, base, delta = ctx.saved_tensors
        g = upstream.contiguous()
        dx, ds = torch.empty_like(x), torch.empty_like(delta)
        scaled_backward[(1,)](g, x, base, delta, dx, ds, x.shape[0], x.shape[1], BLOCK=64)
        needed = ctx.needs_input_grad
        return dx, ds if needed[1] else None, ds.clone() if needed[2] else None


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.base = nn.Parameter(torch.randn(width), requires_grad=False)
        self.delta = nn.Parameter(0.1 * torch.randn(width))

    def forward(self, x):
        return Scaled.apply(x.contiguous(), self.base, self.delta)
