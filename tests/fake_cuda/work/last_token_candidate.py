import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def last_norm(tokens, weight, out, step, hidden, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.arange(0, ROWS)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    inside = at < hidden
    last = tl.load(tokens + row * step + at, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(last * last, axis=1) / hidden + eps)
    result = last * scale[:, None] * tl.load(weight + at, mask=inside, other=0.0)
    tl.store(out + row * hidden + at, result, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, hidden: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(hidden))

    @classmethod
    def from_reference(cls, shell):
        return cls(shell.weight.numel(), shell.eps)

    def forward(self, tokens):
        batch, _, hidden = tokens.shape
        last = tokens[:, -1]
        out = torch.empty(batch, hidden, device=tokens.device, dtype=tokens.dtype)
        last_norm[(1,)](
            last, self.weight, out, tokens.stride(0), hidden, self.eps, ROWS=batch, BLOCK=hidden
        )
        return out
