import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_norm(x_ptr, w_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + j, mask=mask).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / width + 1e-6) * w
    tl.store(out_ptr + row * width + j, y.to(tl.bfloat16), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.bfloat16))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rms_norm[(x.shape[0],)](x, self.weight, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
