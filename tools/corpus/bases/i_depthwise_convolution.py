"""A depthwise 3x3 convolution in float16 that keeps the size of the image."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(
            channels, channels, 3, padding=1, groups=channels, dtype=torch.float16
        )

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 6, 13, 21, dtype=torch.float16)]


def get_init_inputs():
    return [6]
