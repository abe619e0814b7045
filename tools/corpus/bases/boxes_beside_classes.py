"""Boxes in pixels and the probabilities of classes, side by side, as detectors return them."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, box, score):
        return torch.cat([torch.sigmoid(box) * 640.0, torch.sigmoid(score)], dim=-1)


def get_inputs():
    return [torch.randn(192, 4), torch.randn(192, 12)]


def get_init_inputs():
    return []
