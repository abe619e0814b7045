"""RMSNorm with the residual addition before it, in bfloat16.

Every decoder layer of Llama, Mistral and Qwen runs this twice: the block's output is added to the
residual stream, and the sum is normalised for the next block. Both results are needed.
"""

import torch
from torch import nn

TOKENS = 32  # on a GPU: 16384
HIDDEN = 1536  # on a GPU: 4096


class Model(nn.Module):
    """Adds, normalises over the last dimension in float32, scales."""

    def __init__(self, hidden: int, eps: float):
        super().__init__()
        self.eps = eps
        weight = 1 + 0.1 * torch.randn(hidden)
        self.weight = nn.Parameter(weight.to(torch.bfloat16))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + residual
        wide = total.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * scale).to(total.dtype) * self.weight, total


def get_inputs():
    x = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16)
    residual = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16)
    return [x, residual]


def get_init_inputs():
    return [HIDDEN, 1e-6]
