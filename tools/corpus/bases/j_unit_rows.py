"""Rows of length one; the constant that keeps a row of zeros finite stands in torch alone."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=-1)


def get_inputs():
    return [torch.randn(48, 200)]


def get_init_inputs():
    return []
