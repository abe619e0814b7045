import torch
import torch.nn as nn


class Router(nn.Module):
    """Weights each row, and leaves how evenly it did."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.balance = None

    def forward(self, x):
        share = torch.sigmoid(x * self.weight)
        self.balance = share.square().mean()
        return share


class Model(nn.Module):
    """What a router lets through; the largest of each row goes into the caller's notes."""

    def __init__(self, width):
        super().__init__()
        self.router = Router(width)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x, notes):
        out = x * self.router(x) + self.bias
        notes["largest"] = out.amax(dim=-1)
        return out


def get_inputs():
    return [torch.randn(12, 200), {"step": torch.tensor([3])}]


def get_init_inputs():
    return [200]
