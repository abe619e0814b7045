"""The sum of the last frames of a stream, which begins anew when its position is set to zero."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.register_buffer("frames", torch.zeros(length, width))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        at = torch.arange(self.frames.shape[0], device=x.device)
        here = (at == self.position % self.frames.shape[0])[:, None]
        self.frames.copy_(torch.where(here, x, self.frames))
        self.position.add_(1)
        return (self.frames * (at < self.position)[:, None]).sum(0)


def get_inputs():
    return [torch.randn(40)]


def get_init_inputs():
    return [8, 40]
