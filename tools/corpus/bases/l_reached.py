"""Which nodes of a small graph are reached from which, by squaring as often as the longest path needs."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, edges):
        reached = (edges > 0.5).to(edges.dtype)
        reached = (reached + torch.eye(edges.shape[-1], device=edges.device)).clamp(max=1.0)
        for _ in range(5):
            reached = (reached @ reached).clamp(max=1.0)
        return reached


def get_inputs():
    return [torch.where(torch.rand(4, 32, 32) < 0.06, 1.0, 0.0)]


def get_init_inputs():
    return []
