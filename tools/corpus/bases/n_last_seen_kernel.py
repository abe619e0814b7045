import torch
import triton
import triton.language as tl


@triton.jit
def put(frame, seen, oldest, width, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(oldest)
    value = tl.load(frame + at, mask=at < width)
    tl.store(seen + row * width + at, value, mask=at < width)


@triton.jit
def mean(seen, oldest, out, frames, width, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(frames):
        total += tl.load(seen + row * width + at, mask=at < width, other=0.0)
    tl.store(out + at, total / frames, mask=at < width)
    tl.store(oldest, (tl.load(oldest) + 1) % frames)


class ModelNew(torch.nn.Module):
    def __init__(self, frames: int, width: int) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(frames, width))
        self.register_buffer("oldest", torch.zeros(1, dtype=torch.int64))

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        frame = frame.contiguous()
        frames, width = self.seen.shape
        out = torch.empty_like(frame)
        block = triton.next_power_of_2(width)
        put[(1,)](frame, self.seen, self.oldest, width, BLOCK=block)
        mean[(1,)](self.seen, self.oldest, out, frames, width, BLOCK=block)
        return out
