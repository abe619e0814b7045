import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def ring(q_ptr, keys_ptr, seen_ptr, out_ptr, SLOTS: tl.constexpr, WIDTH: tl.constexpr):
    col = tl.arange(0, WIDTH)
    row = tl.arange(0, SLOTS)
    at = row[:, None] * WIDTH + col[None, :]
    q = tl.load(q_ptr + col)
    seen = tl.load(seen_ptr)
    place = seen % SLOTS
    kept = tl.load(keys_ptr + at, mask=(row != place)[:, None], other=0.0)
    keys = tl.where((row == place)[:, None], q[None, :], kept)
    tl.store(keys_ptr + place * WIDTH + col, q)
    tl.store(seen_ptr, seen + 1)
    near = tl.sum(keys * q[None, :], axis=1) * 0.2
    near = tl.where(row <= seen, near, float("-inf"))
    p = tl.exp(near - tl.max(near, axis=0))
    tl.store(out_ptr + col, tl.sum(p[:, None] * keys, axis=0) / tl.sum(p, axis=0))


class ModelNew(nn.Module):
    def __init__(self, slots, width):
        super().__init__()
        self.slots = slots
        self.register_buffer("keys", torch.zeros(slots, width))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, q):
        q = q.contiguous()
        out = torch.empty_like(q)
        ring[(1,)](q, self.keys, self.seen, out, SLOTS=self.slots, WIDTH=q.shape[0], num_warps=8)
        return out
