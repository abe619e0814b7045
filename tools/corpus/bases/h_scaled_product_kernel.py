import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_product(
    x_ptr, w_ptr, s_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * K + tl.arange(0, K)[None, :])
    w = tl.load(w_ptr + n[None, :] * (K // 2) + tl.arange(0, K // 2)[:, None])
    s = tl.load(s_ptr + n[:, None] * (K // 32) + tl.arange(0, K // 32)[None, :])
    out = tl.dot_scaled(x, None, "bf16", w, s, "e2m1")
    tl.store(out_ptr + m[:, None] * N + n[None, :], out)


class ModelNew(nn.Module):
    def forward(self, x, weight, scale):
        rows, inner = x.shape
        columns = weight.shape[0]
        out = torch.empty((rows, columns), device=x.device, dtype=torch.float32)
        scaled_product[(1,)](
            x.contiguous(), weight.contiguous(), scale.contiguous(), out, rows, columns, inner
        )
        return out
