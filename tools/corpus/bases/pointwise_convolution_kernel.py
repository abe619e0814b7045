import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pointwise(x_ptr, w_ptr, b_ptr, out_ptr, channels, out, places, CHANNELS: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr):
    image = tl.program_id(0)
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    o = tl.arange(0, OUT)
    total = tl.zeros((OUT, BLOCK), dtype=tl.float32)
    for first in range(0, channels, CHANNELS):
        c = first + tl.arange(0, CHANNELS)
        w = tl.load(w_ptr + o[:, None] * channels + c[None, :], mask=(o[:, None] < out) & (c[None, :] < channels), other=0.0)
        x = tl.load(x_ptr + (image * channels + c[:, None]) * places + p[None, :], mask=(c[:, None] < channels) & (p[None, :] < places), other=0.0)
        total = tl.dot(w, x, total)
    bias = tl.load(b_ptr + o, mask=o < out, other=0.0)
    y = tl.maximum(total + bias[:, None], 0.0)
    tl.store(out_ptr + (image * out + o[:, None]) * places + p[None, :], y, mask=(o[:, None] < out) & (p[None, :] < places))


class ModelNew(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 1)

    def forward(self, x):
        x = x.contiguous()
        images, channels, high, wide = x.shape
        weight = self.conv.weight
        result = torch.empty((images, weight.shape[0], high, wide), device=x.device, dtype=x.dtype)
        grid = (images, triton.cdiv(high * wide, 32))
        pointwise[grid](x, weight, self.conv.bias, result, channels, weight.shape[0], high * wide, CHANNELS=16, OUT=64, BLOCK=32)
        return result
