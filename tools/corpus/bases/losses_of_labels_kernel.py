import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, label_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    label = tl.load(label_ptr + row)
    x = tl.load(x_ptr + row * width + j, mask=mask, other=float("-inf"))
    top = tl.max(x, axis=0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), axis=0))
    own = tl.sum(tl.where(j == label, x, 0.0), axis=0)
    tl.store(out_ptr + row, tl.where(label == -100, 0.0, lse - own))


class ModelNew(nn.Module):
    def forward(self, x, label):
        out = torch.empty(x.shape[0], device=x.device)
        width = x.shape[-1]
        rows[(x.numel() // width,)](x, label, out, width, BLOCK=triton.next_power_of_2(width))
        return out
