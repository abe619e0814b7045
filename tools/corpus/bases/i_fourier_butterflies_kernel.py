import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def butterflies(re, im, cos_ptr, sin_ptr, STAGE: tl.constexpr, SIZE: tl.constexpr):
    """One stage: pairs that lie SIZE / 2**(STAGE + 1) apart become their sum and their turned difference."""
    HALF: tl.constexpr = SIZE >> (STAGE + 1)
    re = tl.permute(tl.reshape(re, (1 << STAGE, 2, HALF)), (0, 2, 1))
    im = tl.permute(tl.reshape(im, (1 << STAGE, 2, HALF)), (0, 2, 1))
    a, c = tl.split(re)
    b, d = tl.split(im)
    at = tl.arange(0, HALF) * (1 << STAGE)
    cos, sin = tl.load(cos_ptr + at)[None, :], tl.load(sin_ptr + at)[None, :]
    e, f = a - c, b - d
    re = tl.permute(tl.join(a + c, e * cos + f * sin), (0, 2, 1))
    im = tl.permute(tl.join(b + d, f * cos - e * sin), (0, 2, 1))
    return tl.reshape(re, (SIZE,)), tl.reshape(im, (SIZE,))


@triton.jit
def fourier(x_ptr, cos_ptr, sin_ptr, out_ptr, SIZE: tl.constexpr, LOG: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * 2 * SIZE
    i = tl.arange(0, SIZE)
    re, im = tl.load(x_ptr + row + 2 * i), tl.load(x_ptr + row + 2 * i + 1)
    place = tl.zeros((SIZE,), tl.int32)
    for stage in tl.static_range(LOG):
        re, im = butterflies(re, im, cos_ptr, sin_ptr, stage, SIZE)
        place += ((i >> stage) & 1) << (LOG - 1 - stage)
    tl.store(out_ptr + row + 2 * place, re)
    tl.store(out_ptr + row + 2 * place + 1, im)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        angles = torch.arange(size // 2, dtype=torch.float64) * (2 * torch.pi / size)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def forward(self, x):
        x = x.contiguous()
        rows, size, _ = x.shape
        out = torch.empty_like(x)
        fourier[(rows,)](x, self.cos, self.sin, out, SIZE=size, LOG=size.bit_length() - 1)
        return out
