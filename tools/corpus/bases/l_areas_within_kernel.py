import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def within(width_ptr, height_ptr, limit_ptr, out_ptr, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < count
    area = tl.load(width_ptr + i, mask=mask) * tl.load(height_ptr + i, mask=mask)
    tl.store(out_ptr + i, area <= tl.load(limit_ptr + i, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def forward(self, width, height, limit):
        out = torch.empty(width.shape, dtype=torch.bool, device=width.device)
        count = width.numel()
        within[(triton.cdiv(count, 256),)](width, height, limit, out, count, BLOCK=256)
        return out
