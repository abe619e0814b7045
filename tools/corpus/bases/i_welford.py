"""Layer normalisation by merging counts, means and squares in a reduction of one's own."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=1e-5)


def get_inputs():
    return [torch.randn(11, 150) * 2 + 1]


def get_init_inputs():
    return []
