"""Scores squashed to a range before their softmax, with distances as a bias."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        i = torch.arange(x.shape[-1], device=x.device)
        bias = -0.5 * (i[:, None] - i[None, :]).abs().to(x.dtype)
        return torch.softmax(20 * torch.tanh(x / 20) + bias, dim=-1)


def get_inputs():
    return [torch.randn(3, 40, 40) * 10]


def get_init_inputs():
    return []
