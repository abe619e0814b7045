"""Routing of each token to its best two experts: their shares, their numbers, and how many tokens each gets."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        score, place = torch.topk(x, 2, dim=-1)
        return torch.softmax(score, -1), place, torch.bincount(place.flatten(), minlength=x.shape[-1])


def get_inputs():
    return [torch.randn(96, 16)]


def get_init_inputs():
    return []
