"""The mean cross entropy of a linear layer, without all its logits at once; trained."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, words):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(words, width) / width**0.5)

    def forward(self, x, label):
        return torch.nn.functional.cross_entropy(x @ self.weight.T, label)


def get_inputs():
    return [torch.randn(20, 16), torch.randint(0, 30, (20,))]


def get_init_inputs():
    return [16, 30]
