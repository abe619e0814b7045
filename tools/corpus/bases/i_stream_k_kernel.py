import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def stream_k(
    x_ptr,
    w_ptr,
    out_ptr,
    m,
    n,
    k,
    steps,
    each,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    begin = tl.program_id(0) * each
    end = tl.minimum(begin + each, steps)
    per_tile = tl.cdiv(k, BK)
    across = tl.cdiv(n, BN)
    at = begin
    while at < end:
        tile = at // per_tile
        last = tl.minimum(end, (tile + 1) * per_tile)
        i = tile // across * BM + tl.arange(0, BM)
        j = tile % across * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), tl.float32)
        for step in range(at, last):
            c = step % per_tile * BK + tl.arange(0, BK)
            a = tl.load(
                x_ptr + i[:, None] * k + c[None, :],
                mask=(i < m)[:, None] & (c < k)[None, :],
                other=0.0,
            )
            b = tl.load(
                w_ptr + c[:, None] * n + j[None, :],
                mask=(c < k)[:, None] & (j < n)[None, :],
                other=0.0,
            )
            total = tl.dot(a, b, total, input_precision="ieee")
        tl.atomic_add(
            out_ptr + i[:, None] * n + j[None, :], total, mask=(i < m)[:, None] & (j < n)[None, :]
        )
        at = last


class ModelNew(nn.Module):
    def __init__(self, inner, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, width) / inner**0.5)

    def forward(self, x):
        m, k = x.shape
        n = self.weight.shape[1]
        out = torch.zeros(m, n, device=x.device)
        steps = triton.cdiv(m, 16) * triton.cdiv(n, 16) * triton.cdiv(k, 16)
        each = triton.cdiv(steps, 5)
        stream_k[(5,)](x, self.weight, out, m, n, k, steps, each, BM=16, BN=16, BK=16)
        return out
