import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled(
    x_ptr, x_scale_ptr, weight_ptr, weight_scale_ptr, out_ptr, m, n, k,
    BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    groups = k // GROUP
    total = tl.zeros((BM, BN), tl.float32)
    for group in range(groups):
        c = group * GROUP + tl.arange(0, GROUP)
        x = tl.load(x_ptr + i[:, None] * k + c[None, :], mask=(i < m)[:, None], other=0.0)
        w = tl.load(weight_ptr + j[None, :] * k + c[:, None], mask=(j < n)[None, :], other=0.0)
        x_scale = tl.load(x_scale_ptr + i * groups + group, mask=i < m, other=0.0)
        w_scale = tl.load(weight_scale_ptr + j // GROUP * groups + group, mask=j < n, other=0.0)
        total += tl.dot(x, w) * x_scale[:, None] * w_scale[None, :]
    tl.store(
        out_ptr + i[:, None] * n + j[None, :],
        total.to(tl.bfloat16),
        mask=(i < m)[:, None] & (j < n)[None, :],
    )


class ModelNew(nn.Module):
    def __init__(self, inner, width):
        super().__init__()
        self.register_buffer("weight", torch.zeros(width, inner).to(torch.float8_e4m3fn))
        self.scale = nn.Parameter(torch.ones(width // 32, inner // 32))

    def forward(self, x, scale):
        x, scale = x.contiguous(), scale.contiguous()
        (m, k), n = x.shape, self.weight.shape[0]
        out = torch.empty(m, n, dtype=torch.bfloat16, device=x.device)
        scaled[(triton.cdiv(m, 16), triton.cdiv(n, 32))](
            x, scale, self.weight, self.scale, out, m, n, k, BM=16, BN=32, GROUP=32
        )
        return out
