"""SwiGLU gating with the two projections before it, in bfloat16.

The first half of the feed-forward block in Llama, Mistral, Qwen and PaLM. Both projections are one
matrix, as in Phi-3 and in serving engines; the down projection after it is a plain product.
"""

import torch
import torch.nn.functional as F
from torch import nn

TOKENS = 64  # on a GPU: 8192
HIDDEN = 256  # on a GPU: 4096
INTERMEDIATE = 384  # on a GPU: 14336


class Model(nn.Module):
    """silu(x @ gate) * (x @ up)."""

    def __init__(self, hidden: int, intermediate: int):
        super().__init__()
        self.gate_and_up = nn.Linear(hidden, 2 * intermediate, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_and_up(x).chunk(2, dim=-1)
        return F.silu(gate) * up


def get_inputs():
    return [torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16)]


def get_init_inputs():
    return [HIDDEN, INTERMEDIATE]
