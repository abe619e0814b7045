import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def centre(x_ptr, mean_ptr, scale_ptr, out_ptr, rows, width, ROWS: tl.constexpr, COLS: tl.constexpr):
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    row = tl.arange(0, ROWS)
    at = row[:, None] * width + col[None, :]
    inside = (row < rows)[:, None] & (col < width)[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    mean = 0.8 * tl.load(mean_ptr + col, mask=col < width, other=0.0) + 0.2 * (tl.sum(x, 0) / rows)
    tl.store(mean_ptr + col, mean, mask=col < width)
    scale = tl.load(scale_ptr + col, mask=col < width, other=0.0)
    tl.store(out_ptr + at, (x - mean[None, :]) * scale[None, :], mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        rows, width = x.shape
        out = torch.empty_like(x)
        grid = (triton.cdiv(width, 16),)
        centre[grid](
            x, self.mean, self.scale, out, rows, width, ROWS=triton.next_power_of_2(rows), COLS=16
        )
        return out
