import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable


@triton.jit
def relu_affine(x_ptr, w_ptr, b_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    w = tl.load(w_ptr + i % width, mask=mask)
    b = tl.load(b_ptr + i % width, mask=mask)
    tl.store(out_ptr + i, tl.maximum(x, 0.0) * w + b, mask=mask)


@triton.jit
def relu_affine_backward(g_ptr, x_ptr, w_ptr, dx_ptr, dw_ptr, db_ptr, rows, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < width
    w = tl.load(w_ptr + i, mask=mask)
    dw = tl.zeros([BLOCK], tl.float32)
    db = tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        g = tl.load(g_ptr + row * width + i, mask=mask)
        x = tl.load(x_ptr + row * width + i, mask=mask)
        tl.store(dx_ptr + row * width + i, tl.where(x > 0.0, g * w, 0.0), mask=mask)
        dw += g * tl.maximum(x, 0.0)
        db += g
    tl.store(dw_ptr + i, dw, mask=mask)
    tl.store(db_ptr + i, db, mask=mask)


class ReluAffine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        out = torch.empty_like(x)
        n = x.numel()
        relu_affine[(triton.cdiv(n, 256),)](x, weight, bias, out, n, x.shape[-1], BLOCK=256)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        x, weight = ctx.saved_tensors
        g = upstream.contiguous()
        dx, dw, db = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        width = x.shape[-1]
        grid = (triton.cdiv(width, 64),)
        relu_affine_backward[grid](g, x, weight, dx, dw, db, x.numel() // width, width, BLOCK=64)
        return dx, dw, db


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return ReluAffine.apply(x, self.weight, self.bias)
