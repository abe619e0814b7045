"""How many whole periods have passed: a quotient that is cut off."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, t, period):
        return torch.floor(t / period).to(torch.int32)


def get_inputs():
    return [100 * torch.rand(24, 96), 0.5 + torch.rand(24, 96)]


def get_init_inputs():
    return []
