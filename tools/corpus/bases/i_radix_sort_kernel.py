import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def radix(keys_ptr, other_ptr, SIZE: tl.constexpr, BITS: tl.constexpr):
    row = tl.program_id(0) * SIZE
    i = tl.arange(0, SIZE)
    keys = tl.load(keys_ptr + row + i)
    for bit in tl.static_range(BITS):
        ones = (keys >> bit) & 1
        zeros = 1 - ones
        low = tl.cumsum(zeros, 0) - zeros
        high = tl.sum(zeros, 0) + tl.cumsum(ones, 0) - ones
        place = tl.where(ones == 1, high, low)
        hit = place[:, None] == i[None, :]
        keys = tl.sum(tl.where(hit, keys[:, None], 0), axis=0)
    tl.store(other_ptr + row + i, keys)


class ModelNew(nn.Module):
    def forward(self, keys):
        out = torch.empty_like(keys)
        radix[(keys.shape[0],)](keys, out, SIZE=keys.shape[1], BITS=8)
        return out
