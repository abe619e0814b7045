"""Cross entropy with a label that is ignored, one loss for each row."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, label):
        return torch.nn.functional.cross_entropy(x, label, ignore_index=-100, reduction="none")


def get_inputs():
    return [
        torch.randn(20, 90),
        torch.where(torch.rand(20) < 0.2, -100, torch.randint(0, 90, (20,))),
    ]


def get_init_inputs():
    return []
