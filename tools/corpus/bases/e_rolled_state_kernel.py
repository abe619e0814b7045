import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def step(x_ptr, state_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    row, column = i // width, i % width
    x = tl.load(x_ptr + row * width + (column + width - 1) % width, mask=mask)
    tl.store(out_ptr + i, (0.5 * tl.load(state_ptr + i, mask=mask) + x) * 2.0, mask=mask)


@triton.jit
def put_back(out_ptr, state_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(state_ptr + i, tl.load(out_ptr + i, mask=i < n) * 0.5, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.register_buffer("state", torch.zeros(rows, width))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 64),)
        step[grid](x, self.state, out, x.numel(), x.shape[1], BLOCK=64)
        put_back[grid](out, self.state, x.numel(), BLOCK=64)
        return out
