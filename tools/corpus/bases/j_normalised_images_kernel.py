"""A program for each channel of an image."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def normalised(x_ptr, mean_ptr, std_ptr, out_ptr, C: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0)
    j = tl.arange(0, N)
    mean = tl.load(mean_ptr + at % C)
    std = tl.load(std_ptr + at % C)
    x = tl.load(x_ptr + at * N + j)
    tl.store(out_ptr + at * N + j, (x - mean) / std)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.481, 0.457, 0.408, 0.5]))
        self.register_buffer("std", torch.tensor([0.268, 0.261, 0.275, 0.25]))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        images, channels, pixels = x.shape
        normalised[(images * channels,)](x, self.mean, self.std, out, C=channels, N=pixels)
        return out
