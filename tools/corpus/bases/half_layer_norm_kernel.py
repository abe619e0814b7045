import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def half_layer_norm(x_ptr, w_ptr, b_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + j, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + j, mask=mask, other=0.0).to(tl.float32)
    about = tl.where(mask, x - tl.sum(x, axis=0) / width, 0.0)
    scale = tl.rsqrt(tl.sum(about * about, axis=0) / width + 1e-5)
    y = about * scale * w + b
    tl.store(out_ptr + row * width + j, y.to(tl.bfloat16), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter((1 + torch.randn(width) / 8).bfloat16())
        self.bias = nn.Parameter((torch.randn(width) / 8).bfloat16())

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, width = x.shape
        half_layer_norm[(rows,)](x, self.weight, self.bias, out, width, BLOCK=triton.next_power_of_2(width))
        return out
