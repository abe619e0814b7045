import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def masked_softmax(x_ptr, m_ptr, out_ptr, size, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    inside = j < size
    x = tl.load(x_ptr + row * size + j, mask=inside, other=float("-inf"))
    x += tl.load(m_ptr + (row % size) * size + j, mask=inside, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * size + j, e / tl.sum(e, axis=0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mask", torch.empty(size, size))

    def forward(self, scores):
        scores = scores.contiguous()
        out = torch.empty_like(scores)
        size = scores.shape[-1]
        masked_softmax[(scores.numel() // size,)](scores, self.mask, out, size, BLOCK=triton.next_power_of_2(size))
        return out
