import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def angles(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0.0)
    # Of the half angle, so that nothing cancels where the cosine is near one (4.4.46 of Abramowitz and Stegun).
    size = tl.abs(x)
    p = -0.0012624911
    p = p * size + 0.0066700901
    p = p * size - 0.0170881256
    p = p * size + 0.0308918810
    p = p * size - 0.0501743046
    p = p * size + 0.0889789874
    p = p * size - 0.2145988016
    p = p * size + 1.5707963050
    angle = tl.sqrt(tl.maximum(1.0 - size, 0.0)) * p
    angle = tl.where(x < 0.0, 3.14159265358979 - angle, angle)
    tl.store(out_ptr + i, tl.where(size <= 1.0, angle, float("nan")), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        angles[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)
        return out
