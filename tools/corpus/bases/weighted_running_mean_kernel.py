import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def centre(x_ptr, m_ptr, w_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    y = tl.load(x_ptr + i, mask=mask) - tl.load(m_ptr + i % width, mask=mask)
    tl.store(out_ptr + i, y * tl.load(w_ptr + i % width, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.register_buffer("running_mean", torch.zeros(width))

    def forward(self, x):
        x = x.contiguous()
        self.running_mean.mul_(0.9).add_(0.1 * x.mean(0))
        out = torch.empty_like(x)
        centre[(triton.cdiv(x.numel(), 256),)](x, self.running_mean, self.weight, out, x.numel(), x.shape[1], BLOCK=256)
        return out
