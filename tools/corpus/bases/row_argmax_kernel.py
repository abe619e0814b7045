import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_argmax(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + j, mask=j < width, other=float("-inf"))
    place = tl.argmax(x, axis=0, tie_break_left=True)
    tl.store(out_ptr + row, place.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
        row_argmax[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
