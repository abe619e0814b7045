import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, value_ptr, place_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < width
    x = tl.load(x_ptr + row * width + j, mask=mask, other=float("-inf"))
    best, place = tl.max(x, axis=0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(value_ptr + row, best)
    tl.store(place_ptr + row, place.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        value = torch.empty(x.shape[:-1], device=x.device)
        place = torch.empty(x.shape[:-1], dtype=torch.int64, device=x.device)
        width = x.shape[-1]
        rows[(x.numel() // width,)](x, value, place, width, BLOCK=triton.next_power_of_2(width))
        return value, place
