import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gate_by_total(x_ptr, total_ptr, out_ptr, rows, width, BLOCK: tl.constexpr):
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = j < width
    total = 0.75 * tl.load(total_ptr + j, mask=mask, other=0.0)
    added = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        added += tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
    total += added
    tl.store(total_ptr + j, total, mask=mask)
    gate = tl.sigmoid(total)
    for row in range(rows):
        x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0)
        tl.store(out_ptr + row * width + j, x * gate, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("total", torch.zeros(width))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, width = x.shape
        gate_by_total[(triton.cdiv(width, 64),)](x, self.total, out, rows, width, BLOCK=64)
        return out, self.total
