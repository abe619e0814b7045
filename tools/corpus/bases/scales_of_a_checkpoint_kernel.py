import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled(x_ptr, w_ptr, scale_ptr, zero_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask) * tl.load(w_ptr + j, mask=mask)
    power = tl.exp(-2.0 * tl.abs(x))
    high = (1.0 - power) / (1.0 + power)
    tangent = tl.where(x < 0.0, -high, high)
    zero = tl.load(zero_ptr + j, mask=mask).to(tl.float32)
    scale = tl.load(scale_ptr + j, mask=mask)
    tl.store(out_ptr + row * width + j, (tangent - zero) * scale, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.register_buffer("scale", torch.ones(width))
        self.register_buffer("zero", torch.full((width,), 8, dtype=torch.int32))

    def forward(self, x):
        out = torch.empty_like(x)
        width = x.shape[-1]
        block = triton.next_power_of_2(width)
        scaled[(x.numel() // width,)](x, self.weight, self.scale, self.zero, out, width, BLOCK=block)
        return out
