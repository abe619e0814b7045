import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def last_norm(tokens, weight, out, scales, step, hidden, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < hidden
    last = tl.load(tokens + row * step + at, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(last * last) / hidden + eps)
    tl.store(scales + row, scale)
    result = last * scale * tl.load(weight + at, mask=inside, other=0.0)
    tl.store(out + row * hidden + at, result, mask=inside)


@triton.jit
def last_norm_backward(
    tokens,
    weight,
    scales,
    upstream,
    of_tokens,
    of_weight,
    batch,
    step,
    hidden,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.arange(0, ROWS)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    inside = (row < batch) & (at < hidden)
    last = tl.load(tokens + row * step + at, mask=inside, other=0.0)
    given = tl.load(upstream + row * hidden + at, mask=inside, other=0.0)
    scale = tl.load(scales + row, mask=row < batch, other=0.0)
    scaled = given * tl.load(weight + at, mask=at < hidden, other=0.0)
    along = tl.sum(scaled * last, axis=1)[:, None] / hidden
    result = scale * scaled - last * scale * scale * scale * along
    tl.store(of_tokens + row * step + at, result, mask=inside)
    column = tl.arange(0, BLOCK)
    tl.store(of_weight + column, tl.sum(given * last * scale, axis=0), mask=column < hidden)


class LastNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tokens, weight, eps):
        batch, _, hidden = tokens.shape
        last = tokens[:, -1]
        out = torch.empty(batch, hidden, device=tokens.device, dtype=tokens.dtype)
        scales = torch.empty(batch, device=tokens.device, dtype=tokens.dtype)
        last_norm[(batch,)](last, weight, out, scales, tokens.stride(0), hidden, eps, BLOCK=hidden)
        ctx.save_for_backward(tokens, weight, scales)
        return out

    @staticmethod
    def backward(ctx, upstream):
        tokens, weight, scales = ctx.saved_tensors
        batch, _, hidden = tokens.shape
        of_tokens, of_weight = torch.zeros_like(tokens), torch.empty_like(weight)
        last_norm_backward[(1,)](
            tokens[:, -1],
            weight,
            scales,
            upstream.contiguous(),
            of_tokens[:, -1],
            of_weight,
            batch,
            tokens.stride(0),
            hidden,
            ROWS=batch,
            BLOCK=hidden,
        )
        return of_tokens, of_weight, None


class ModelNew(nn.Module):
    def __init__(self, hidden: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, tokens):
        return LastNorm.apply(tokens, self.weight, self.eps)
