"""Rows added to the places that indices name, atomically."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, place):
        return x.new_zeros(10, x.shape[1]).index_add(0, place, x)


def get_inputs():
    return [torch.randn(40, 20), torch.randint(0, 10, (40,))]


def get_init_inputs():
    return []
