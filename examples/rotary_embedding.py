"""Rotary position embedding of queries and keys, written in plain style rather than KernelBench's.

    kernelagent optimize examples/rotary_embedding.py --module RotaryEmbedding --inputs example_inputs

Two named input sets: a short and a longer sequence. On a GPU use lengths of thousands.
"""

import torch
from torch import nn

HEADS, WIDTH = 4, 64


class RotaryEmbedding(nn.Module):
    """Rotates the two halves of each head by an angle that grows with the position."""

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, *, angles: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = angles.cos(), angles.sin()
        return self._rotated(query, cos, sin), self._rotated(key, cos, sin)

    @staticmethod
    def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, dim=-1)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


def _sample(length: int) -> dict[str, object]:
    query, key = (torch.randn(HEADS, length, WIDTH) for _ in range(2))
    frequencies = 10000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
    angles = torch.arange(length)[:, None] * frequencies
    return {"args": (query, key), "kwargs": {"angles": angles}}


def example_inputs() -> dict[str, dict[str, object]]:
    return {"short": _sample(17), "long": _sample(64)}
