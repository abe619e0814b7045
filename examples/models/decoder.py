"""A small decoder: embedding, a stack of blocks, a last norm and the output layer.

A whole model, not a single module: `kernelagent scan examples/models/decoder.py` says which parts
take the time, `kernelagent optimize examples/models/decoder.py --submodule blocks.0.norm` optimizes
one of them on what it really gets, and looks at the whole model with it in place.
"""

import torch
from torch import nn

VOCABULARY = 512  # on a GPU: 32000
WIDTH = 128  # on a GPU: 4096
HEADS = 4  # on a GPU: 32
BLOCKS = 2  # on a GPU: 32
TOKENS = 32  # on a GPU: 2048


class RMSNorm(nn.Module):
    """Scales each row to length one, then by a weight."""

    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        split = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class GatedMLP(nn.Module):
    """SwiGLU between two matrices."""

    def __init__(self, width: int):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.up(x).chunk(2, dim=-1)
        return self.down(nn.functional.silu(gate) * value)


class Block(nn.Module):
    """Attention and MLP, each behind a norm and added to the stream."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm = RMSNorm(width)
        self.attention = Attention(width, heads)
        self.second_norm = RMSNorm(width)
        self.mlp = GatedMLP(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.mlp(self.second_norm(x))


class Model(nn.Module):
    """From tokens to the logits of the next ones."""

    def __init__(self, vocabulary: int, width: int, heads: int, blocks: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def get_inputs():
    return [torch.randint(0, VOCABULARY, (2, TOKENS))]


def get_init_inputs():
    return [VOCABULARY, WIDTH, HEADS, BLOCKS]
