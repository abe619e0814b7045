"""Sums of numbers of 256 bits in words of 32, the lowest first, and what is carried out of them."""

import torch
from torch import nn

WORDS = 8


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        carried = torch.zeros_like(a[:, 0])
        words = []
        for at in range(WORDS):
            total = a[:, at] + b[:, at] + carried
            words.append(total % 2**32)
            carried = total // 2**32
        return torch.stack(words, 1), carried


def get_inputs():
    return [torch.randint(0, 2**32, (256, WORDS)) for _ in range(2)]


def get_init_inputs():
    return []
