import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, grad_ptr, weight_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
    g = tl.load(grad_ptr + row * width + j, mask=mask, other=0.0) * tl.load(
        weight_ptr + j, mask=mask, other=0.0
    )
    mean = tl.sum(x, axis=0) / width
    apart = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(apart * apart, axis=0) / width + 1e-5)
    hat = apart * rstd
    own, along = tl.sum(g, axis=0) / width, tl.sum(g * hat, axis=0) / width
    tl.store(out_ptr + row * width + j, (g - own - hat * along) * rstd, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, grad, weight):
        out = torch.empty_like(x)
        width = x.shape[-1]
        rows[(x.numel() // width,)](
            x, grad, weight, out, width, BLOCK=triton.next_power_of_2(width)
        )
        return out
