import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable


@triton.jit
def losses(x_ptr, t_ptr, loss_ptr, lse_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + row * n + i, mask=mask, other=-float("inf"))
    t = tl.load(t_ptr + row * n + i, mask=mask, other=0.0)
    top = tl.max(x, axis=0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), axis=0))
    tl.store(lse_ptr + row, lse)
    tl.store(loss_ptr + row, tl.sum(tl.where(mask, t * (lse - x), 0.0), axis=0))


@triton.jit
def slopes(x_ptr, t_ptr, lse_ptr, g_ptr, dx_ptr, dt_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + row * n + i, mask=mask, other=-float("inf"))
    t = tl.load(t_ptr + row * n + i, mask=mask, other=0.0)
    lse, g = tl.load(lse_ptr + row), tl.load(g_ptr + row)
    tl.store(dx_ptr + row * n + i, g * (tl.exp(x - lse) * tl.sum(t, axis=0) - t), mask=mask)
    tl.store(dt_ptr + row * n + i, g * (lse - x), mask=mask)


class SoftCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        rows, n = logits.shape
        loss, lse = logits.new_empty(rows), logits.new_empty(rows)
        losses[(rows,)](logits, targets, loss, lse, n, BLOCK=triton.next_power_of_2(n))
        ctx.save_for_backward(logits, targets, lse)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        logits, targets, lse = ctx.saved_tensors
        rows, n = logits.shape
        dx, dt = torch.empty_like(logits), torch.empty_like(targets)
        slopes[(rows,)](
            logits, targets, lse, upstream.contiguous(), dx, dt, n, BLOCK=triton.next_power_of_2(n)
        )
        return dx, dt


class ModelNew(nn.Module):
    def forward(self, logits, targets):
        return SoftCrossEntropy.apply(logits.contiguous(), targets.contiguous())
