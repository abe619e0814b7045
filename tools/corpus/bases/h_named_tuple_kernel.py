from collections import namedtuple
from typing import NamedTuple

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


class Vector(NamedTuple):
    ptr: torch.Tensor
    n: int


Pair = namedtuple("Pair", "source target bias")


@triton.jit
def loaded(vector, i):
    return tl.load(vector.ptr + i, mask=i < vector.n, other=0.0)


@triton.jit
def scaled_tanh(pair, settings: tl.constexpr):
    i = tl.program_id(0) * settings[0] + tl.arange(0, settings[0])
    y = libdevice.tanh(loaded(pair.source, i)) * settings[1]
    if pair.bias is not None:
        y += pair.bias
    target = pair.target
    tl.store(target.ptr + i, y, mask=i < target.n)


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        pair = Pair(Vector(x, n), Vector(out, n), None)
        scaled_tanh[(triton.cdiv(n, 256),)](pair, (256, self.scale))
        return out
