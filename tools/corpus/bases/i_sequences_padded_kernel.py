import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pad(x_ptr, offset_ptr, place_ptr, out_ptr, longest, width, BT: tl.constexpr, BLOCK: tl.constexpr):
    sequence = tl.program_id(1)
    begin, end = tl.load(offset_ptr + sequence), tl.load(offset_ptr + sequence + 1)
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    j = tl.arange(0, BLOCK)
    inside = (t < longest)[:, None] & (j < width)[None, :]
    full = inside & (begin + t < end)[:, None]
    x = tl.load(x_ptr + (begin + t)[:, None] * width + j[None, :], mask=full, other=0.0)
    place = tl.load(place_ptr + t[:, None] * width + j[None, :], mask=full, other=0.0)
    row = sequence * longest + t
    tl.store(out_ptr + row[:, None] * width + j[None, :], x + place, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, longest, width):
        super().__init__()
        self.place = nn.Parameter(torch.randn(longest, width))

    def forward(self, x, offsets):
        x = x.contiguous()
        longest, width = self.place.shape
        sequences = offsets.numel() - 1
        out = torch.empty(sequences, longest, width, dtype=x.dtype, device=x.device)
        pad[(triton.cdiv(longest, 8), sequences)](
            x, offsets, self.place, out, longest, width, BT=8, BLOCK=triton.next_power_of_2(width)
        )
        return out
