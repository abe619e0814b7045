import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def log_softmax(x_ptr, hidden_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < n
    x = tl.load(x_ptr + row * n + column, mask=inside, other=float("-inf"))
    hidden = tl.load(hidden_ptr + row * n + column, mask=inside, other=1)
    x = tl.where(hidden != 0, float("-inf"), x)
    largest = tl.max(x, axis=0)
    total = tl.sum(tl.exp(x - largest), axis=0)
    tl.store(out_ptr + row * n + column, x - largest - tl.log(total), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, hidden):
        x, hidden = x.contiguous(), hidden.contiguous()
        out = torch.empty_like(x)
        n = x.shape[-1]
        log_softmax[(x.numel() // n,)](x, hidden, out, n, BLOCK=triton.next_power_of_2(n))
        return out
