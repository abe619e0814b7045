"""Scores of keys as they are handed on, hidden ones far below all others."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, scores, slopes, seen):
        return (scores * slopes[:, None]).masked_fill(~seen, -1e9)


def get_inputs():
    return [torch.randn(6, 20, 24), torch.rand(20) + 0.5, torch.rand(6, 20, 24) < 0.8]


def get_init_inputs():
    return []
