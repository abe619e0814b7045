import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sigmoid_and_shift(x_ptr, s_ptr, out_ptr, columns, xr, xc, sr, sc, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < columns
    x = tl.load(x_ptr + row * xr + j * xc, mask=mask)
    s = tl.load(s_ptr + row * sr + j * sc, mask=mask)
    tl.store(out_ptr + row * columns + j, 1.0 / (1.0 + tl.exp(-x)) + s, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, shift):
        rows, columns = x.shape
        out = torch.empty((rows, columns), device=x.device, dtype=x.dtype)
        block = triton.next_power_of_2(columns)
        sigmoid_and_shift[(rows,)](x, shift, out, columns, *x.stride(), *shift.stride(), BLOCK=block)
        return out
