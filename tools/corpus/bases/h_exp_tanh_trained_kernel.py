"""Both as (1 - e) / (1 + e): beside ones, small results have the error of the last bit of one."""

from __future__ import annotations

import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def tanh(v):
    e = tl.exp(-2 * tl.abs(v))
    t = (1 - e) / (1 + e)
    return tl.where(v < 0, -t, t)

@triton.jit
def fwd(x, a, b, y, z, N: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, N)
    v = tl.load(x + r * N + c)
    tl.store(y + r * N + c, tanh(v * tl.load(a + c)))
    tl.store(z + r * N + c, tanh(v * tl.load(b + c)))

@triton.jit
def bwd(x, a, b, y, z, gy, gz, gx, ga, gb, M, N: tl.constexpr):
    c = tl.program_id(0) * 16 + tl.arange(0, 16)
    wa = tl.load(a + c)
    wb = tl.load(b + c)
    sa = tl.zeros((16,), tl.float32)
    sb = tl.zeros((16,), tl.float32)
    for r in range(M):
        v = tl.load(x + r * N + c)
        p = tl.load(y + r * N + c)
        q = tl.load(z + r * N + c)
        u = tl.load(gy + r * N + c) * (1 - p * p)
        w = tl.load(gz + r * N + c) * (1 - q * q)
        tl.store(gx + r * N + c, u * wa + w * wb)
        sa += u * v
        sb += w * v
    tl.store(ga + c, sa)
    tl.store(gb + c, sb)

class F2(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, a, b):
        y = torch.empty_like(x)
        z = torch.empty_like(x)
        fwd[(x.shape[0],)](x, a, b, y, z, N=x.shape[1])
        ctx.save_for_backward(x, a, b, y, z)
        return y, z

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gy, gz):
        x, a, b, y, z = ctx.saved_tensors
        gy = gy.contiguous()
        gz = gz.contiguous()
        gx = torch.empty_like(x)
        ga = torch.empty_like(a)
        gb = torch.empty_like(b)
        bwd[(x.shape[1] // 16,)](x, a, b, y, z, gy, gz, gx, ga, gb, x.shape[0], N=x.shape[1])
        return gx, ga, gb

class ModelNew(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a = nn.Parameter(torch.randn(d))
        self.b = nn.Parameter(torch.randn(d))
    def forward(self, x):
        return F2.apply(x, self.a, self.b)
