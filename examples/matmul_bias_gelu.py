"""A linear layer with bias and GELU, in float16.

The widening half of the feed-forward block in BERT, GPT-2 and ViT. A library's matrix product
writes its result to memory only for the GELU to read it back: what is to be won is that round trip.
"""

import torch
import torch.nn.functional as F
from torch import nn

TOKENS = 128  # on a GPU: 8192
HIDDEN = 256  # on a GPU: 4096
INTERMEDIATE = 512  # on a GPU: 16384


class Model(nn.Module):
    """gelu(x @ weight.T + bias), with the tanh form of GELU."""

    def __init__(self, hidden: int, intermediate: int):
        super().__init__()
        self.up = nn.Linear(hidden, intermediate, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.up(x), approximate="tanh")


def get_inputs():
    return [torch.randn(TOKENS, HIDDEN, dtype=torch.float16)]


def get_init_inputs():
    return [HIDDEN, INTERMEDIATE]
