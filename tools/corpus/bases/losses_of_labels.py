"""A loss for each row, none of which is left out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, label):
        return nn.functional.cross_entropy(x, label, reduction="none")


def get_inputs():
    return [torch.randn(20, 90), torch.randint(0, 90, (20,))]


def get_init_inputs():
    return []
