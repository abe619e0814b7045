import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_norm_silu(x_ptr, r_ptr, w_ptr, b_ptr, out_ptr, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0).to(tl.float32)
    x += tl.load(r_ptr + row * width + j, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / width
    d = tl.where(mask, x - mean, 0.0)
    y = d * tl.rsqrt(tl.sum(d * d, axis=0) / width + eps)
    y = y * tl.load(w_ptr + j, mask=mask, other=0.0).to(tl.float32)
    y += tl.load(b_ptr + j, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * width + j, y * tl.sigmoid(y), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width).half()

    def forward(self, x, residual):
        x, residual = x.contiguous(), residual.contiguous()
        out = torch.empty_like(x)
        norm = self.norm
        block = triton.next_power_of_2(x.shape[1])
        add_norm_silu[(x.shape[0],)](x, residual, norm.weight, norm.bias, out, x.shape[1], norm.eps, BLOCK=block)
        return out
