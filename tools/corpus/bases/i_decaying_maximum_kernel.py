import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, largest_ptr, out_ptr, rows, width, ROWS: tl.constexpr):
    col = tl.program_id(0)
    row = tl.arange(0, ROWS)
    x = tl.load(x_ptr + row * width + col, mask=row < rows, other=0.0)
    now = tl.max(tl.abs(x), axis=0)
    largest = tl.maximum(tl.load(largest_ptr + col) * 0.9, now)
    tl.store(largest_ptr + col, largest)
    tl.store(out_ptr + row * width + col, x * (127.0 / largest), mask=row < rows)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("largest", torch.ones(width))

    def forward(self, x):
        rows, width = x.shape
        out = torch.empty_like(x)
        scale[(width,)](x, self.largest, out, rows, width, ROWS=triton.next_power_of_2(rows))
        return out
