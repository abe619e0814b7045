import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def step(a, b, c, d):
    return a * c, c * b + d


@triton.jit
def recurrence(a_ptr, b_ptr, out_ptr, length, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    t = tl.arange(0, BLOCK)
    mask = t < length
    a = tl.sigmoid(tl.load(a_ptr + row * length + t, mask=mask, other=0.0))
    b = tl.load(b_ptr + row * length + t, mask=mask, other=0.0)
    _, state = tl.associative_scan((a, b), 0, step)
    tl.store(out_ptr + row * length + t, state, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(b)
        recurrence[(a.shape[0],)](a, b, out, a.shape[1], BLOCK=triton.next_power_of_2(a.shape[1]))
        return out
