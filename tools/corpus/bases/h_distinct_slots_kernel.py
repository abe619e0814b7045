"""Each program stores one row to its slot, as paged caches are written."""

from __future__ import annotations

import torch
from torch import nn
import triton
import triton.language as tl


@triton.jit
def write(k_ptr, slot_ptr, c_ptr, W: tl.constexpr):
    t = tl.program_id(0)
    slot = tl.load(slot_ptr + t)
    c = tl.arange(0, W)
    tl.store(c_ptr + slot * W + c, tl.load(k_ptr + t * W + c))


@triton.jit
def double(c_ptr, o_ptr, W: tl.constexpr):
    o = tl.program_id(0) * W + tl.arange(0, W)
    tl.store(o_ptr + o, tl.load(c_ptr + o) * 2)


class ModelNew(nn.Module):
    def __init__(self, slots, dim):
        super().__init__()
        self.register_buffer("k", torch.zeros(slots, dim))

    def forward(self, key, slot_mapping):
        S, W = self.k.shape
        o = torch.empty_like(self.k)
        write[(key.shape[0],)](key.contiguous(), slot_mapping, self.k, W=W)
        double[(S,)](self.k, o, W=W)
        return o
