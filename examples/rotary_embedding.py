"""Rotary position embedding of queries and keys, in bfloat16, in plain style.

Llama, Mistral, Qwen and GPT-NeoX turn each pair of features by an angle that grows with the token's
position. The file follows no convention, so the command names the class and the inputs:

    kernelagent optimize examples/rotary_embedding.py --module RotaryEmbedding --inputs example_inputs
"""

import torch
from torch import nn

SHORT = 24  # on a GPU: 512
LONG = 100  # on a GPU: 8192
HEADS = 4  # on a GPU: 32
KEY_HEADS = 2  # on a GPU: 8
HEAD_SIZE = 64  # on a GPU: 128


class RotaryEmbedding(nn.Module):
    """Turns the first half of each head's features against the second half."""

    inverse_frequency: torch.Tensor

    def __init__(self, head_size: int = HEAD_SIZE, base: float = 10000.0):
        super().__init__()
        exponent = torch.arange(0, head_size, 2, dtype=torch.float32) / head_size
        self.register_buffer("inverse_frequency", base**-exponent, persistent=False)

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, *, position: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        angle = position[:, :, None, None] * self.inverse_frequency
        cosine, sine = angle.cos(), angle.sin()
        return _turned(query, cosine, sine), _turned(key, cosine, sine)


def _turned(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return turned.to(x.dtype)


def _call(batch: int, tokens: int) -> dict:
    query = torch.randn(batch, tokens, HEADS, HEAD_SIZE, dtype=torch.bfloat16)
    key = torch.randn(batch, tokens, KEY_HEADS, HEAD_SIZE, dtype=torch.bfloat16)
    offset = torch.randint(0, 64, (batch, 1))
    return {"args": (query, key), "kwargs": {"position": offset + torch.arange(tokens)}}


def example_inputs():
    """Two shapes: several short prompts, one longer text."""
    return {"short": _call(batch=2, tokens=SHORT), "long": _call(batch=1, tokens=LONG)}
