"""LayerNorm followed by GELU, as in the heads of BERT-style encoders.

Size here: 64 tokens of width 768. On a GPU: TOKENS, WIDTH = 16384, 4096.
"""

import torch
import torch.nn as nn

TOKENS, WIDTH = 64, 768


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.norm.weight, 1.0, 0.2)
        nn.init.normal_(self.norm.bias, 0.0, 0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.norm(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, WIDTH)]


def get_init_inputs() -> list[int]:
    return [WIDTH]
