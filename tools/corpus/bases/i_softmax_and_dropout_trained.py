"""A softmax and a dropout whose mask is a hash of a seed and a place, so that none is kept; trained."""

import torch
import torch.nn as nn


def hashed(seed, count):
    word = (torch.arange(count) * 0x9E3779B1 + seed) & 0xFFFFFFFF
    for factor in (0x7FEB352D, 0x846CA68B):
        word = word ^ (word >> 16)
        # In two halves: the whole product does not fit into 63 bits.
        word = ((word & 0xFFFF) * factor + (((word >> 16) * factor & 0xFFFF) << 16)) & 0xFFFFFFFF
    return word ^ (word >> 16)


class Model(nn.Module):
    def forward(self, x, seed):
        kept = hashed(seed, x.numel()).reshape(x.shape).to(x.device) >= 1 << 30
        return torch.where(kept, torch.softmax(x, dim=-1) / 0.75, 0.0)


def get_inputs():
    return [torch.randn(18, 50), 4321]


def get_init_inputs():
    return []
