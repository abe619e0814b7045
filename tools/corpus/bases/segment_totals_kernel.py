import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def segment_totals(x_ptr, segment_ptr, w_ptr, out_ptr, rows, width, BLOCK: tl.constexpr):
    segment = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = i < width
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        own = tl.load(segment_ptr + row) == segment
        total += tl.load(x_ptr + row * width + i, mask=mask & own, other=0.0)
    w = tl.load(w_ptr + i, mask=mask, other=0.0)
    tl.store(out_ptr + segment * width + i, total * w, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x, segments):
        if not torch.isfinite(x).all():
            raise ValueError("a row is not finite")
        x = x.contiguous()
        rows, width = x.shape
        out = x.new_empty(6, width)
        segment_totals[(6, triton.cdiv(width, 64))](
            x, segments, self.weight, out, rows, width, BLOCK=64
        )
        return out
