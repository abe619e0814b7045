import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    [triton.Config({"BLOCK": b}, num_warps=w) for b in (128, 256) for w in (2, 4)], key=["n"]
)
@triton.jit
def bias_gelu(x_ptr, bias_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n) + tl.load(bias_ptr + i % width, mask=i < n)
    tl.store(out_ptr + i, 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, bias):
        out = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
        bias_gelu[grid](x, bias, out, x.numel(), x.shape[-1])
        return out
