import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable


@triton.jit
def is_kept(seed, place):
    word = place.to(tl.uint32) * 0x9E3779B1 + seed.to(tl.uint32)
    word = (word ^ (word >> 16)) * 0x7FEB352D
    word = (word ^ (word >> 16)) * 0x846CA68B
    return (word ^ (word >> 16)) >= 1073741824


@triton.jit
def forward(x_ptr, share_ptr, out_ptr, seed, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    at = row * width + j
    x = tl.load(x_ptr + at, mask=mask, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    share = e / tl.sum(e, axis=0)
    tl.store(share_ptr + at, share, mask=mask)
    tl.store(out_ptr + at, tl.where(is_kept(seed, at), share / 0.75, 0.0), mask=mask)


@triton.jit
def backward(g_ptr, share_ptr, dx_ptr, seed, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    at = row * width + j
    share = tl.load(share_ptr + at, mask=mask, other=0.0)
    g = tl.load(g_ptr + at, mask=mask, other=0.0)
    g = tl.where(is_kept(seed, at), g / 0.75, 0.0)
    tl.store(dx_ptr + at, share * (g - tl.sum(share * g, axis=0)), mask=mask)


class SoftmaxDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seed):
        out, share = torch.empty_like(x), torch.empty_like(x)
        rows, width = x.shape
        ctx.save_for_backward(share)
        ctx.seed = seed
        forward[(rows,)](x, share, out, seed, width, BLOCK=triton.next_power_of_2(width))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        (share,) = ctx.saved_tensors
        g, dx = upstream.contiguous(), torch.empty_like(share)
        rows, width = share.shape
        backward[(rows,)](g, share, dx, ctx.seed, width, BLOCK=triton.next_power_of_2(width))
        return dx, None


class ModelNew(nn.Module):
    def forward(self, x, seed):
        return SoftmaxDropout.apply(x.contiguous(), seed)
