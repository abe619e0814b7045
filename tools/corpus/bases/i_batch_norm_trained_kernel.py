import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable


@triton.jit
def place(i, channel, channels, area):
    return (i // area * channels + channel) * area + i % area


@triton.jit
def statistics(
    x_ptr, mean_ptr, rstd_ptr, running_mean_ptr, running_var_ptr, channels, area, count, momentum, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + place(i, channel, channels, area), mask=i < count, other=0.0)
    mean = tl.sum(total, axis=0) / count
    square = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + place(i, channel, channels, area), mask=i < count, other=0.0)
        apart = tl.where(i < count, x - mean, 0.0)
        square += apart * apart
    apart_sum = tl.sum(square, axis=0)
    tl.store(mean_ptr + channel, mean)
    tl.store(rstd_ptr + channel, tl.rsqrt(apart_sum / count + eps))
    kept_mean, kept_var = tl.load(running_mean_ptr + channel), tl.load(running_var_ptr + channel)
    tl.store(running_mean_ptr + channel, kept_mean + momentum * (mean - kept_mean))
    var = apart_sum / (count - 1)
    tl.store(running_var_ptr + channel, kept_var + momentum * (var - kept_var))


@triton.jit
def normalise(
    x_ptr, mean_ptr, rstd_ptr, weight_ptr, bias_ptr, out_ptr, n, channels, area, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    channel = i // area % channels
    hat = tl.load(x_ptr + i, mask=mask) - tl.load(mean_ptr + channel, mask=mask)
    hat *= tl.load(rstd_ptr + channel, mask=mask)
    y = hat * tl.load(weight_ptr + channel, mask=mask) + tl.load(bias_ptr + channel, mask=mask)
    tl.store(out_ptr + i, tl.maximum(y, 0.0, propagate_nan=tl.PropagateNan.ALL), mask=mask)


@triton.jit
def sums(
    g_ptr, x_ptr, out_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, channels, area, count, BLOCK: tl.constexpr
):
    channel = tl.program_id(0)
    mean, rstd = tl.load(mean_ptr + channel), tl.load(rstd_ptr + channel)
    dw, db = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        i = start + tl.arange(0, BLOCK)
        at = place(i, channel, channels, area)
        passed = tl.load(out_ptr + at, mask=i < count, other=0.0) > 0.0
        g = tl.where(passed, tl.load(g_ptr + at, mask=i < count, other=0.0), 0.0)
        dw += g * (tl.load(x_ptr + at, mask=i < count, other=0.0) - mean) * rstd
        db += g
    tl.store(dw_ptr + channel, tl.sum(dw, axis=0))
    tl.store(db_ptr + channel, tl.sum(db, axis=0))


@triton.jit
def slopes(
    g_ptr, x_ptr, out_ptr, mean_ptr, rstd_ptr, weight_ptr, dw_ptr, db_ptr, dx_ptr, n, channels, area, count,
    BATCH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    channel = i // area % channels
    rstd = tl.load(rstd_ptr + channel, mask=mask)
    g = tl.where(tl.load(out_ptr + i, mask=mask) > 0.0, tl.load(g_ptr + i, mask=mask), 0.0)
    if BATCH:
        hat = (tl.load(x_ptr + i, mask=mask) - tl.load(mean_ptr + channel, mask=mask)) * rstd
        dw, db = tl.load(dw_ptr + channel, mask=mask), tl.load(db_ptr + channel, mask=mask)
        g -= (db + hat * dw) / count
    tl.store(dx_ptr + i, g * rstd * tl.load(weight_ptr + channel, mask=mask), mask=mask)


class BatchNormRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, running_mean, running_var, momentum, eps, of_batch):
        batch, channels, *sizes = x.shape
        area = sizes[0] * sizes[1]
        out, n = torch.empty_like(x), x.numel()
        if of_batch:
            mean, rstd = torch.empty_like(running_mean), torch.empty_like(running_var)
            statistics[(channels,)](
                x, mean, rstd, running_mean, running_var, channels, area, batch * area, momentum, eps,
                BLOCK=64,
            )  # fmt: skip
        else:
            mean, rstd = running_mean.clone(), torch.rsqrt(running_var + eps)
        normalise[(triton.cdiv(n, 256),)](
            x, mean, rstd, weight, bias, out, n, channels, area, BLOCK=256
        )
        ctx.save_for_backward(x, out, weight, mean, rstd)
        ctx.of_batch = of_batch
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        x, out, weight, mean, rstd = ctx.saved_tensors
        batch, channels, *sizes = x.shape
        area, n = sizes[0] * sizes[1], x.numel()
        g, dx = upstream.contiguous(), torch.empty_like(x)
        dw, db = torch.empty_like(weight), torch.empty_like(weight)
        sums[(channels,)](
            g, x, out, mean, rstd, dw, db, channels, area, batch * area, BLOCK=64
        )
        slopes[(triton.cdiv(n, 256),)](
            g, x, out, mean, rstd, weight, dw, db, dx, n, channels, area, batch * area,
            BATCH=ctx.of_batch, BLOCK=256,
        )  # fmt: skip
        return dx, dw, db, None, None, None, None, None


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        norm = self.norm
        if norm.training:
            norm.num_batches_tracked.add_(1)
        return BatchNormRelu.apply(
            x.contiguous(), norm.weight, norm.bias, norm.running_mean, norm.running_var,
            norm.momentum, norm.eps, norm.training,
        )  # fmt: skip
