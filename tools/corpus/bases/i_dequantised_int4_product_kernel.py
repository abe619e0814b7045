import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product(x_ptr, packed_ptr, scale_ptr, out_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for group in range(0, k // 16):
        c = group * 16 + tl.arange(0, 16)
        x = tl.load(x_ptr + i[:, None] * k + c[None, :], mask=(i < m)[:, None], other=0.0)
        byte = tl.load(
            packed_ptr + (c // 2)[:, None] * n + j[None, :], mask=(j < n)[None, :], other=0
        )
        four = (byte.to(tl.int32) >> (c % 2 * 4)[:, None]) & 15
        scale = tl.load(scale_ptr + group * n + j, mask=j < n, other=0.0)
        total += tl.dot(x, (four - 8).to(tl.float32) * scale[None, :], input_precision="ieee")
    tl.store(out_ptr + i[:, None] * n + j[None, :], total, mask=(i < m)[:, None] & (j < n)[None, :])


class ModelNew(nn.Module):
    def __init__(self, inner, width):
        super().__init__()
        self.register_buffer("packed", torch.zeros(inner // 2, width, dtype=torch.uint8))
        self.scale = nn.Parameter(torch.ones(inner // 16, width))

    def forward(self, x):
        m, k = x.shape
        n = self.scale.shape[1]
        out = torch.empty(m, n, device=x.device)
        product[(triton.cdiv(m, 16), triton.cdiv(n, 16))](
            x, self.packed, self.scale, out, m, n, k, BM=16, BN=16
        )
        return out
