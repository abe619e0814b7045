import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    half = width // 2
    mask = j < half
    gate = tl.load(x_ptr + row * width + j, mask=mask)
    up = tl.load(x_ptr + row * width + half + j, mask=mask)
    tl.store(out_ptr + row * half + j, gate * tl.sigmoid(gate) * up, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(*x.shape[:-1], x.shape[-1] // 2, device=x.device)
        width = x.shape[-1]
        rows[(x.numel() // width,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
