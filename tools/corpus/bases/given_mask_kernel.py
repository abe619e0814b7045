import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def masked_softmax(x_ptr, mask_ptr, out_ptr, size, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    inside = j < size
    seen = tl.load(mask_ptr + row % size * size + j, mask=inside, other=0) != 0
    x = tl.load(x_ptr + row * size + j, mask=inside & seen, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * size + j, e / tl.sum(e, axis=0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        out = torch.empty_like(x)
        size = x.shape[-1]
        masked_softmax[(x.numel() // size,)](x, mask, out, size, BLOCK=triton.next_power_of_2(size))
        return out
