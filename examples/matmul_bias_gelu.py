"""A linear layer with GELU: the first half of a transformer's feed-forward block.

Size here: 64 tokens, 256 to 512 features. On a GPU: TOKENS, IN, OUT = 8192, 4096, 16384.
"""

import torch
import torch.nn as nn

TOKENS, IN, OUT = 64, 256, 512


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.linear(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, IN)]


def get_init_inputs() -> list[int]:
    return [IN, OUT]
