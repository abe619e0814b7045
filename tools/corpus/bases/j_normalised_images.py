"""Images less a mean and by a deviation that are in buffers, as a checkpoint holds them."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.481, 0.457, 0.408, 0.5]))
        self.register_buffer("std", torch.tensor([0.268, 0.261, 0.275, 0.25]))

    def forward(self, x):
        return (x - self.mean[:, None]) / self.std[:, None]


def get_inputs():
    return [torch.rand(8, 4, 128)]


def get_init_inputs():
    return []
