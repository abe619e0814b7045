import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable


@triton.jit
def energies(x_ptr, w_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + j, mask=j < width, other=0.0)
    w = tl.load(w_ptr + j, mask=j < width, other=0.0)
    tl.store(out_ptr + row, tl.sum(x * x * w, 0))


@triton.jit
def energies_backward(g_ptr, x_ptr, w_ptr, dx_ptr, dw_ptr, rows, width, BLOCK: tl.constexpr):
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = j < width
    w = tl.load(w_ptr + j, mask=mask)
    dw = tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        x = tl.load(x_ptr + row * width + j, mask=mask)
        g = tl.load(g_ptr + row)
        tl.store(dx_ptr + row * width + j, 2.0 * g * x * w, mask=mask)
        dw += g * x * x
    tl.store(dw_ptr + j, dw, mask=mask)


class Energies(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        rows, width = x.shape
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        energies[(rows,)](x, weight, out, width, BLOCK=triton.next_power_of_2(width))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        x, weight = ctx.saved_tensors
        g = upstream.contiguous()
        dx, dw = torch.empty_like(x), torch.empty_like(weight)
        rows, width = x.shape
        grid = (triton.cdiv(width, 32),)
        energies_backward[grid](g, x, weight, dx, dw, rows, width, BLOCK=32)
        return dx, dw


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return Energies.apply(x, self.weight)
