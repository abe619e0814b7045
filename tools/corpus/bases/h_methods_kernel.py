import torch
import torch.nn as nn
import triton
import triton.language as tl

TWO = tl.constexpr(2.0)


@triton.constexpr_function
def base_of(name):
    tables = {"natural": sum(1.0 / (1 << i) for i in range(1, 3)) + 0.25, "none": 0.0}
    return max(value for key, value in sorted(tables.items()) if key == name)


@triton.jit
def gated_softmax(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + j, mask=j < width, other=-float("inf"))
    STEP: tl.constexpr = base_of("natural")
    z = TWO * x * STEP
    e = (z - z.max(0)).exp()
    tl.store(out_ptr + row * width + j, e / e.sum(0) * x.sigmoid(), mask=j < width)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, width = x.shape
        gated_softmax[(rows,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
