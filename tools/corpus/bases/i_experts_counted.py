"""Experts of each token, chosen by scores with a bias, how many chose each, and where each one's rows begin."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(experts) / 4)

    def forward(self, x):
        score = torch.sigmoid(x)
        place = torch.topk(score + self.bias, 3, dim=-1).indices
        share = score.gather(-1, place)
        count = torch.zeros(x.shape[-1], dtype=torch.int32, device=x.device)
        one = torch.ones(place.numel(), dtype=torch.int32, device=x.device)
        count.index_add_(0, place.flatten(), one)
        begin = torch.cumsum((count + 7) // 8 * 8, 0, dtype=torch.int32)
        begin = torch.nn.functional.pad(begin, (1, 0))
        return share / share.sum(-1, keepdim=True), place, count, begin


def get_inputs():
    return [torch.randn(50, 12)]


def get_init_inputs():
    return [12]
