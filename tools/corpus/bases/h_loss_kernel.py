import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def squared_difference(a_ptr, b_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(a_ptr + i, mask=i < n, other=0.0) - tl.load(b_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(d * d, axis=0) * factor)


class ModelNew(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, predicted, target, *, weight=1.0):
        predicted, target = predicted.contiguous(), target.contiguous()
        n = predicted.numel()
        out = torch.zeros((), device=predicted.device, dtype=predicted.dtype)
        factor = self.alpha * weight / n
        squared_difference[(triton.cdiv(n, 256),)](predicted, target, out, n, factor, BLOCK=256)
        return out
