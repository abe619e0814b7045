import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_relu_add(y_ptr, x_ptr, w_ptr, b_ptr, out_ptr, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    y = tl.load(y_ptr + row * width + j, mask=mask, other=0.0)
    mean = tl.sum(y, axis=0) / width
    d = tl.where(mask, y - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(d * d, axis=0) / width + eps)
    y = d * scale * tl.load(w_ptr + j, mask=mask) + tl.load(b_ptr + j, mask=mask)
    x = tl.load(x_ptr + row * width + j, mask=mask)
    tl.store(out_ptr + row * width + j, tl.maximum(y, 0.0) + x, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stages = nn.ModuleList(
            nn.ModuleList([nn.Linear(width, width), nn.LayerNorm(width)]) for _ in range(depth)
        )

    def forward(self, x):
        x = x.contiguous()
        for linear, norm in self.stages:
            y = linear(x)
            out = torch.empty_like(x)
            norm_relu_add[(x.shape[0],)](
                y, x, norm.weight, norm.bias, out, x.shape[1], norm.eps, BLOCK=triton.next_power_of_2(x.shape[1])
            )
            x = out
        return x
