import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def last_frames(
    x_ptr, frames_ptr, position_ptr, out_ptr, length, width, L: tl.constexpr, BLOCK: tl.constexpr
):
    position = tl.load(position_ptr)
    at = tl.arange(0, L)[:, None]
    j = tl.arange(0, BLOCK)[None, :]
    inside = (at < length) & (j < width)
    places = frames_ptr + at * width + j
    x = tl.load(x_ptr + j, mask=j < width, other=0.0)
    frames = tl.where(at == position % length, x, tl.load(places, mask=inside, other=0.0))
    tl.store(places, frames, mask=inside)
    counted = tl.where(at < position + 1, frames, 0.0)
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.sum(counted, 0), mask=tl.arange(0, BLOCK) < width)
    tl.store(position_ptr, position + 1)


class ModelNew(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.register_buffer("frames", torch.zeros(length, width))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        out = torch.empty_like(x)
        length, width = self.frames.shape
        last_frames[(1,)](
            x, self.frames, self.position, out, length, width,
            L=triton.next_power_of_2(length), BLOCK=triton.next_power_of_2(width),
        )
        return out
