"""Sequences that lie one after another become rows of a batch, each with the embedding of its place."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, longest, width):
        super().__init__()
        self.place = nn.Parameter(torch.randn(longest, width))

    def forward(self, x, offsets):
        out = x.new_zeros(offsets.numel() - 1, *self.place.shape)
        for n in range(offsets.numel() - 1):
            part = x[int(offsets[n]) : int(offsets[n + 1])][: self.place.shape[0]]
            out[n, : len(part)] = part + self.place[: len(part)]
        return out


def get_inputs():
    return [torch.randn(37, 40), torch.tensor([0, 11, 12, 21, 37])]


def get_init_inputs():
    return [16, 40]
