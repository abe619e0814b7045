import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def depthwise(
    x_ptr, weight_ptr, bias_ptr, out_ptr, channels, height, width,
    BH: tl.constexpr, BW: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
):  # fmt: skip
    plane = tl.program_id(2)
    channel = plane % channels
    h = tl.program_id(1) * BH + tl.arange(0, BH)
    w = tl.program_id(0) * BW + tl.arange(0, BW)
    image = x_ptr + plane * height * width
    total = tl.zeros((BH, BW), tl.float32) + tl.load(bias_ptr + channel).to(tl.float32)
    for kh in tl.static_range(KH):
        row = h + kh - KH // 2
        for kw in tl.static_range(KW):
            column = w + kw - KW // 2
            inside = ((row >= 0) & (row < height))[:, None] & ((column >= 0) & (column < width))[None, :]
            x = tl.load(image + row[:, None] * width + column[None, :], mask=inside, other=0.0)
            weight = tl.load(weight_ptr + (channel * KH + kh) * KW + kw)
            total += x.to(tl.float32) * weight.to(tl.float32)
    tl.store(
        out_ptr + plane * height * width + h[:, None] * width + w[None, :],
        total.to(tl.float16),
        mask=(h < height)[:, None] & (w < width)[None, :],
    )


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(
            channels, channels, 3, padding=1, groups=channels, dtype=torch.float16
        )

    def forward(self, x):
        x = x.contiguous()
        batch, channels, height, width = x.shape
        out = torch.empty_like(x)
        grid = (triton.cdiv(width, 16), triton.cdiv(height, 8), batch * channels)
        depthwise[grid](
            x, self.conv.weight, self.conv.bias, out, channels, height, width,
            BH=8, BW=16, KH=3, KW=3,
        )  # fmt: skip
        return out
