import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, w):
        z = x.view(torch.complex64).squeeze(-1)
        return torch.view_as_real(z * w.unsqueeze(-1)).sum(-2)


def get_inputs():
    return [torch.randn(32, 64, 2), torch.randn(32, 1)]


def get_init_inputs():
    return []
