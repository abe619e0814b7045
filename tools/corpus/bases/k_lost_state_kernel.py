import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def one_sum(x_ptr, total_ptr, lost_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    before = tl.load(total_ptr + i, mask=mask)
    step = tl.load(x_ptr + i, mask=mask) - tl.load(lost_ptr + i, mask=mask)
    total = before + step
    tl.store(lost_ptr + i, (total - before) - step, mask=mask)
    tl.store(total_ptr + i, total, mask=mask)
    tl.store(out_ptr + i, total, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(640))
        self.register_buffer("lost", torch.zeros(640))

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        one_sum[(triton.cdiv(n, 128),)](x, self.total, self.lost, out, n, BLOCK=128)
        return out
