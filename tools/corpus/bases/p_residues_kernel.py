import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def residues(a_ptr, b_ptr, c_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(a_ptr + at, mask=inside, other=0)
    b = tl.load(b_ptr + at, mask=inside, other=0)
    c = tl.load(c_ptr + at, mask=inside, other=0)
    total = a * b + c
    rest = total % 998244353
    tl.store(out_ptr + at, rest, mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b, c):
        a, b, c = a.contiguous(), b.contiguous(), c.contiguous()
        out = torch.empty_like(a)
        n = a.numel()
        residues[(triton.cdiv(n, 256),)](a, b, c, out, n, BLOCK=256)
        return out
