import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, hidden: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(hidden))
        self.fast = torch.compile(self._normed)

    def _normed(self, tokens):
        last = tokens[:, -1]
        scale = torch.rsqrt(last.square().mean(-1, keepdim=True) + self.eps)
        return last * scale * self.weight

    def forward(self, tokens):
        return self.fast(tokens)
