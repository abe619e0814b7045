import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def normalise_columns(x_ptr, mean_ptr, out_ptr, rows, width, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < rows
    x = tl.load(x_ptr + i * width + column, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / rows
    d = tl.where(mask, x - mean, 0.0)
    var = tl.sum(d * d, axis=0) / rows
    running = tl.load(mean_ptr + column)
    tl.store(mean_ptr + column, running + 0.1 * (mean - running))
    tl.store(out_ptr + i * width + column, d / tl.sqrt(var + 1e-5), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, width = x.shape
        normalise_columns[(width,)](x, self.mean, out, rows, width, BLOCK=triton.next_power_of_2(rows))
        self.calls += 1
        return out
