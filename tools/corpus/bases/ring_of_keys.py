"""A ring of the last keys: each call adds one, and returns the mean of those there, weighted by how near they are."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, slots, width):
        super().__init__()
        self.slots = slots
        self.register_buffer("keys", torch.zeros(slots, width))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, q):
        self.keys.index_copy_(0, (self.seen % self.slots).reshape(1), q.reshape(1, -1))
        self.seen.add_(1)
        there = torch.arange(self.slots, device=q.device) < self.seen
        near = (self.keys @ q * 0.2).masked_fill(~there, float("-inf"))
        return torch.softmax(near, 0) @ self.keys


def get_inputs():
    return [torch.randn(32)]


def get_init_inputs():
    return [256, 32]
