import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, dt_ptr, a_ptr, b_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    n = tl.arange(0, 8)
    a = tl.load(a_ptr + n)
    state = tl.zeros((8,), tl.float32)
    for t in range(width):
        raw = tl.load(dt_ptr + row * width + t)
        d = tl.where(raw > 20.0, raw, tl.log(1 + tl.exp(tl.minimum(raw, 20.0))))
        b = tl.load(b_ptr + (row * width + t) * 8 + n)
        state = tl.exp(-d * a) * state + d * tl.load(x_ptr + row * width + t) * b
        tl.store(out_ptr + row * width + t, tl.sum(state * b, axis=0))


class ModelNew(nn.Module):
    def forward(self, x, dt, a, b):
        out = torch.empty_like(x)
        width = x.shape[-1]
        rows[(x.numel() // width,)](x, dt, a, b, out, width, BLOCK=triton.next_power_of_2(width))
        return out
