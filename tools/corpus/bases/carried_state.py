"""Smooths a stream whose state is the caller's: a new mean in each call, peaks that are written in place."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x, state):
        state["mean"] = 0.875 * state["mean"] + 0.125 * x
        state["peak"].copy_(torch.maximum(state["peak"], x.amax(dim=-1)))
        return state["mean"] * self.weight + state["peak"][:, None], dict(state)


def get_inputs():
    return [torch.randn(12, 200), {"mean": torch.randn(12, 200), "peak": torch.randn(12)}]


def get_init_inputs():
    return [200]
