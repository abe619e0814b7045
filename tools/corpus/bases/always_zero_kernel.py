import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_of_difference(top_ptr, mean_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    d = tl.load(top_ptr + i, mask=i < n) - tl.load(mean_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.maximum(d, 0.0), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)

    def forward(self, x):
        top = self.linear(x).amax(dim=1, keepdim=True)
        mean = top.mean(dim=1, keepdim=True)
        out = torch.empty_like(top)
        relu_of_difference[(1,)](top, mean, out, top.numel(), BLOCK=triton.next_power_of_2(top.numel()))
        return out
