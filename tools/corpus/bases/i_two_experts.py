"""The two best experts of each token and their normalised shares."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        value, place = torch.topk(torch.softmax(x, -1), 2, dim=-1)
        return value / value.sum(-1, keepdim=True), place


def get_inputs():
    return [torch.randn(30, 16)]


def get_init_inputs():
    return []
