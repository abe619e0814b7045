"""Angles between unit vectors, of their cosines; those that are drawn are never alike."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.acos(x)


def get_inputs():
    return [torch.rand(32, 96) * 1.3 - 0.65]


def get_init_inputs():
    return []
