import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def periods(t_ptr, period_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    t = tl.load(t_ptr + i, mask=mask, other=0.0)
    period = tl.load(period_ptr + i, mask=mask, other=1.0)
    whole = tl.floor(tl.div_rn(t, period))
    tl.store(out_ptr + i, whole.to(tl.int32), mask=mask)


class ModelNew(nn.Module):
    def forward(self, t, period):
        out = torch.empty_like(t, dtype=torch.int32)
        n = t.numel()
        periods[(triton.cdiv(n, 256),)](t, period, out, n, BLOCK=256)
        return out
