import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def same_ids(left_ptr, right_ptr, same_ptr, larger_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(left_ptr + at, mask=at < count, other=0)
    right = tl.load(right_ptr + at, mask=at < count, other=0)
    tl.store(same_ptr + at, left == right, mask=at < count)
    tl.store(larger_ptr + at, tl.maximum(left, right), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, left, right):
        left, right = left.contiguous(), right.contiguous()
        same = torch.empty(left.shape, device=left.device, dtype=torch.bool)
        larger = torch.empty_like(left)
        count = left.numel()
        same_ids[(triton.cdiv(count, 512),)](left, right, same, larger, count, BLOCK=512)
        return same, larger
