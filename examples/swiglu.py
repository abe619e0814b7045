"""The gate of a SwiGLU feed-forward block: silu(gate) * up, with the two halves in one tensor.

The projections around it are matrix products that a library does well; the gate is what is left.
Size here: 64 tokens of hidden width 704 in bfloat16. On a GPU: TOKENS, HIDDEN = 8192, 11008.
"""

import torch
import torch.nn as nn

TOKENS, HIDDEN = 64, 704


class Model(nn.Module):
    def forward(self, gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, 2 * HIDDEN, dtype=torch.bfloat16)]


def get_init_inputs() -> list[int]:
    return []
