import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, w_ptr, out_ptr, stride, width, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + i, mask=i < width)
    w = tl.load(w_ptr + i, mask=i < width)
    tl.store(out_ptr + row * width + i, tl.sigmoid(x) * w, mask=i < width)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        rows, width = x.shape
        out = torch.empty((rows, width), device=x.device, dtype=x.dtype)
        scale[(rows,)](x, self.weight, out, x.stride(0), width, BLOCK=64)
        return out
