import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count(x_ptr, total_ptr, out_ptr, rows, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = tl.arange(0, ROWS)
    at = i[:, None] * width + j[None, :]
    mask = (i[:, None] < rows) & (j[None, :] < width)
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    total = tl.load(total_ptr + j, mask=j < width, other=0.0) + tl.sum(x, axis=0) / rows
    tl.store(total_ptr + j, total, mask=j < width)
    tl.store(out_ptr + at, x - total[None, :], mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("total", torch.zeros(width))

    def forward(self, x):
        x = x.contiguous()
        bad = not bool(torch.isfinite(x).all())
        if bad:
            raise ValueError("not finite")
        rows, width = x.shape
        out = torch.empty_like(x)
        count[(triton.cdiv(width, 32),)](
            x, self.total, out, rows, width, ROWS=triton.next_power_of_2(rows), BLOCK=32
        )
        return out
