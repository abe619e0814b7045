import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_and_norm(
    x_ptr, residual_ptr, weight_ptr, out_ptr, x_row, residual_row, width, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * x_row + j, mask=mask, other=0.0).to(tl.float32)
    at = residual_ptr + row * residual_row + j
    total = (tl.load(at, mask=mask, other=0.0).to(tl.float32) + x).to(tl.bfloat16)
    tl.store(at, total, mask=mask)
    wide = total.to(tl.float32)
    wide *= tl.rsqrt(tl.sum(wide * wide, axis=0) / width + eps)
    weight = tl.load(weight_ptr + j, mask=mask).to(tl.float32)
    tl.store(out_ptr + row * width + j, (wide * weight).to(tl.bfloat16), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.bfloat16))

    def forward(self, x, residual):
        rows, width = x.shape
        x = x if x.stride(1) == 1 else x.contiguous()
        # The caller's own memory: rows may have gaps between them, elements none.
        assert residual.stride(1) == 1
        out = torch.empty(rows, width, dtype=x.dtype, device=x.device)
        add_and_norm[(rows,)](
            x, residual, self.weight, out, x.stride(0), residual.stride(0), width, 1e-6,
            BLOCK=triton.next_power_of_2(width),
        )  # fmt: skip
        return out, residual
