"""Kernels whose work is in casts, functions, wide or repeated integers, or in one program of many."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def casts(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    for _ in range(turns):
        value = value.to(tl.bfloat16).to(tl.float32)
    tl.store(out + lanes, value)


@triton.jit
def gammas(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    for _ in range(turns):
        value = libdevice.lgamma(value)
    tl.store(out + lanes, value)


@triton.jit
def sines(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    for _ in range(turns):
        value = tl.sin(value) * 1e7
    tl.store(out + lanes, value)


@triton.jit
def repeated(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = lanes
    for turn in range(turns):
        value = (value ^ (value >> 3)) + turn
    tl.store(out + lanes, value.to(tl.float32))


@triton.jit
def wide(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK).to(tl.int64)
    value = lanes
    for _ in range(turns):
        value = value ^ lanes
    tl.store(out + lanes, value.to(tl.float32))


@triton.jit
def one_of_many(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    if tl.program_id(0) == 0:
        for _ in range(turns):
            value = value * 0.5 + 1.0
    tl.store(out + lanes, value, mask=lanes < 0)
