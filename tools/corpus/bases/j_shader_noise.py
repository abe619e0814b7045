"""A number from zero to one for two coordinates, as shaders make noise: eager itself knows none of its digits."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, across, down):
        wave = torch.sin(across * 12.9898 + down * 78.233) * 43758.5453
        return wave - torch.floor(wave)


def get_inputs():
    return [torch.randn(32, 64), torch.randn(32, 64)]


def get_init_inputs():
    return []
