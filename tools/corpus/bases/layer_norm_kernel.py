import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, out_ptr, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / width
    d = tl.where(mask, x - mean, 0.0)
    var = tl.sum(d * d, axis=0) / width
    w = tl.load(w_ptr + j, mask=mask)
    b = tl.load(b_ptr + j, mask=mask)
    y = d / tl.sqrt(var + eps) * w + b
    tl.store(out_ptr + row * width + j, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, width = x.shape
        norm = self.norm
        layer_norm[(rows,)](x, norm.weight, norm.bias, out, width, norm.eps, BLOCK=triton.next_power_of_2(width))
        return out
