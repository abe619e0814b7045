import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def totals(x_ptr, total_ptr, large_ptr, out_ptr, rows, width, step, BLOCK: tl.constexpr):
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = j < width
    added = tl.zeros((BLOCK,), tl.float32)
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    for row in range(rows):
        x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
        added += x
        most = tl.maximum(most, x)
    total = 0.75 * tl.load(total_ptr + j * step, mask=mask, other=0.0) + added
    tl.store(total_ptr + j * step, total, mask=mask)
    before = tl.load(large_ptr + j, mask=mask, other=0)
    large = (before != 0) | (most > 2.0)
    tl.store(large_ptr + j, large, mask=mask)
    for row in range(rows):
        x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
        tl.store(out_ptr + row * width + j, tl.where(large, x, 0.5 * x) + total, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("total", torch.zeros(width, 2)[:, 0])
        self.register_buffer("large", torch.zeros(width, dtype=torch.bool))

    def forward(self, x):
        x = x.contiguous()
        rows, width = x.shape
        out, total, large = torch.empty_like(x), self.total, self.large
        totals[(triton.cdiv(width, 64),)](
            x, total, large, out, rows, width, total.stride(0), BLOCK=64
        )
        return out
