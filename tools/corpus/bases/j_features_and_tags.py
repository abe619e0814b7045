"""Features with a hashed tag of their row beside them: of the tag nobody knows a digit, of the features all."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        steps = torch.arange(1, 9, device=x.device)
        waves = torch.sin(x.sum(-1, keepdim=True) * steps * 43.7189) * 51297.631
        return torch.cat([torch.sigmoid(x), waves - torch.floor(waves)], -1)


def get_inputs():
    return [torch.randn(64, 56)]


def get_init_inputs():
    return []
