import torch
from torch import nn


class Model(nn.Module):
    """The norm before the logits: only the last token of each sequence is looked at."""

    def __init__(self, hidden: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(hidden))

    def forward(self, tokens):
        last = tokens[:, -1]
        scale = torch.rsqrt(last.square().mean(-1, keepdim=True) + self.eps)
        return last * scale * self.weight


def get_inputs():
    return [torch.randn(2, 1024, 512)]


def get_init_inputs():
    return [512, 1e-6]
