"""The loss of each token, half of it where the model is right already."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, logits, target):
        loss = nn.functional.cross_entropy(logits, target, reduction="none")
        return torch.where(logits.argmax(1) == target, 0.5 * loss, loss)


def get_inputs():
    return [torch.randn(48, 600), torch.randint(0, 600, (48,))]


def get_init_inputs():
    return []
