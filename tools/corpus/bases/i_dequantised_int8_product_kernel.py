import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product(
    x_ptr, w_ptr, scale_ptr, out_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        c = start + tl.arange(0, BK)
        x = tl.load(
            x_ptr + i[:, None] * k + c[None, :], mask=(i < m)[:, None] & (c < k)[None, :], other=0.0
        )
        w = tl.load(
            w_ptr + c[:, None] * n + j[None, :], mask=(c < k)[:, None] & (j < n)[None, :], other=0
        )
        total = tl.dot(x, w.to(tl.float32), total, input_precision="ieee")
    scale = tl.load(scale_ptr + j, mask=j < n, other=0.0)
    tl.store(
        out_ptr + i[:, None] * n + j[None, :],
        total * scale[None, :],
        mask=(i < m)[:, None] & (j < n)[None, :],
    )


class ModelNew(nn.Module):
    def __init__(self, inner, width):
        super().__init__()
        self.register_buffer("weight", torch.zeros(inner, width, dtype=torch.int8))
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        (m, k), n = x.shape, self.scale.numel()
        out = torch.empty(m, n, device=x.device)
        product[(triton.cdiv(m, 16),)](
            x, self.weight, self.scale, out, m, n, k, BM=16, BN=triton.next_power_of_2(n), BK=16
        )
        return out
