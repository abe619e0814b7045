import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, out_ptr, scale_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-8) / 127
    whole = tl.floor(tl.div_rn(x, scale) + 0.5)
    whole = tl.minimum(tl.maximum(whole, -127.0), 127.0)
    tl.store(out_ptr + row * width + j, whole.to(tl.int32), mask=mask)
    tl.store(scale_ptr + row, scale)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, dtype=torch.int32, device=x.device)
        scale = torch.empty(*x.shape[:-1], 1, device=x.device)
        width = x.shape[-1]
        rows[(x.numel() // width,)](x, out, scale, width, BLOCK=triton.next_power_of_2(width))
        return out, scale
