"""Cross-entropy per token over a large vocabulary: the loss at the end of every language model.

Size here: 16 tokens over 8192 words. On a GPU: TOKENS, VOCABULARY = 8192, 128256.
"""

import torch
import torch.nn as nn

TOKENS, VOCABULARY = 16, 8192


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(logits, target, reduction="none")


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, VOCABULARY), torch.randint(0, VOCABULARY, (TOKENS,))]


def get_init_inputs() -> list[int]:
    return []
