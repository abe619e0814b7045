import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def change(frame, last, gain_ptr, out, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS
    apart = frame.load([row, 0]) - last.load([row, 0])
    gain = tl.load(gain_ptr + tl.arange(0, WIDTH))
    out.store([row, 0], apart * apart * gain[None, :])


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.randn(width))

    def forward(self, frame, last):
        out = torch.empty_like(frame)
        rows, width = frame.shape
        tiles = [TensorDescriptor.from_tensor(t, [16, width]) for t in (frame, last, out)]
        change[(triton.cdiv(rows, 16),)](tiles[0], tiles[1], self.gain, tiles[2], ROWS=16, WIDTH=width)
        return out
