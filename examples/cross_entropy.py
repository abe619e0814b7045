"""Cross-entropy over a large vocabulary, in float32.

The last step of training a language model, and of scoring text with one. Written out it makes a
second tensor as large as the logits, which are often the largest tensor there is.
"""

import torch
import torch.nn.functional as F
from torch import nn

TOKENS = 16  # on a GPU: 8192
VOCABULARY = 32000  # on a GPU: 128256


class Model(nn.Module):
    """Mean over the tokens of -log softmax(logits)[target]."""

    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, target)


def get_inputs():
    logits = 3 * torch.randn(TOKENS, VOCABULARY)
    target = torch.randint(0, VOCABULARY, (TOKENS,))
    return [logits, target]


def get_init_inputs():
    return []
