"""Attention in float16 over the blocks of keys that a list names for each block of queries."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        # The block itself, the one before it, and the first, which all see.
        lists = [sorted({0, max(n - 1, 0), n}) for n in range(blocks)]
        first = torch.tensor([0, *(len(own) for own in lists)]).cumsum(0)
        self.register_buffer("first", first.to(torch.int32))
        self.register_buffer("column", torch.tensor(sum(lists, []), dtype=torch.int32))

    def forward(self, q, k, v):
        seen = torch.zeros(2 * [self.first.numel() - 1], dtype=torch.bool, device=q.device)
        rows = torch.arange(len(seen), device=q.device)
        seen[rows.repeat_interleave(self.first.diff()), self.column.long()] = True
        seen = seen.repeat_interleave(16, 0).repeat_interleave(16, 1)
        score = q.float() @ k.float().transpose(-1, -2) / q.shape[-1] ** 0.5
        share = torch.softmax(score.masked_fill(~seen, float("-inf")), dim=-1)
        return (share @ v.float()).to(q.dtype)


def get_inputs():
    return [torch.randn(2, 80, 32, dtype=torch.float16) for _ in range(3)]


def get_init_inputs():
    return [5]
