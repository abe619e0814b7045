import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

CHUNK = 16


@triton.jit
def product(
    a_ptr, b_ptr, out_ptr, m, n, k, a_row, a_column, b_row, b_column,
    ADD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        c = start + tl.arange(0, BK)
        a = tl.load(
            a_ptr + i[:, None] * a_row + c[None, :] * a_column,
            mask=(i < m)[:, None] & (c < k)[None, :],
            other=0.0,
        )
        b = tl.load(
            b_ptr + c[:, None] * b_row + j[None, :] * b_column,
            mask=(c < k)[:, None] & (j < n)[None, :],
            other=0.0,
        )
        total = tl.dot(a, b, total, input_precision="ieee")
    at, mask = i[:, None] * n + j[None, :], (i < m)[:, None] & (j < n)[None, :]
    if ADD:
        total += tl.load(out_ptr + at, mask=mask, other=0.0)
    tl.store(out_ptr + at, total, mask=mask)


@triton.jit
def loss_and_slope(logit_ptr, label_ptr, count_ptr, loss_ptr, words, BLOCK: tl.constexpr):
    """The loss of a row; its logits become their own gradients where they lie."""
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < words
    label = tl.load(label_ptr + row)
    kept = label != -100
    count = tl.load(count_ptr)
    x = tl.load(logit_ptr + row * words + j, mask=mask, other=float("-inf"))
    top = tl.max(x, axis=0)
    e = tl.exp(x - top)
    total = tl.sum(e, axis=0)
    own = tl.sum(tl.where(j == label, x, 0.0), axis=0)
    tl.store(loss_ptr + row, tl.where(kept, top + tl.log(total) - own, 0.0))
    slope = (e / total - (j == label).to(tl.float32)) / count
    tl.store(logit_ptr + row * words + j, tl.where(kept, slope, 0.0), mask=mask)


def multiply(a, b, out, add=False):
    (m, k), n = a.shape, b.shape[1]
    product[(triton.cdiv(m, 16), triton.cdiv(n, 32))](
        a, b, out, m, n, k, *a.stride(), *b.stride(), ADD=add, BM=16, BN=32, BK=16
    )


class LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, label):
        rows, words = x.shape[0], weight.shape[0]
        count = (label != -100).sum().to(torch.float32)
        loss = torch.empty(rows, device=x.device)
        logits = torch.empty(CHUNK, words, device=x.device)
        trained = any(ctx.needs_input_grad)
        dx = torch.empty_like(x) if trained else None
        dw = torch.zeros_like(weight) if trained else None
        for start in range(0, rows, CHUNK):
            end = min(start + CHUNK, rows)
            part, own = x[start:end], logits[: end - start]
            multiply(part, weight.T, own)
            loss_and_slope[(end - start,)](
                own, label[start:end], count, loss[start:end], words,
                BLOCK=triton.next_power_of_2(words),
            )  # fmt: skip
            if trained:
                multiply(own, weight, dx[start:end])
                multiply(own.T, part, dw, add=True)
        if trained:
            ctx.save_for_backward(dx, dw)
        return loss.sum() / count

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        dx, dw = ctx.saved_tensors
        return dx * upstream, dw * upstream, None


class ModelNew(nn.Module):
    def __init__(self, width, words):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(words, width) / width**0.5)

    def forward(self, x, label):
        return LinearCrossEntropy.apply(x.contiguous(), self.weight, label)
