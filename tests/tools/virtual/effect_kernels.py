"""Kernels whose operations change their operands, or never do."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def each_merge(x_ptr: Any, zero_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    zero = tl.load(zero_ptr + at)
    y = x * (zero + 1.0)
    y -= zero
    y = tl.maximum(y, zero - 1e6)
    y = tl.where(y > 2.0 + zero, y + zero * 3.0, y)
    y = tl.fma(zero, x, y)
    tl.store(out_ptr + at + zero.to(tl.int32), y)


@triton.jit
def sums_and_bounds(x_ptr: Any, id_ptr: Any, out_ptr: Any, n: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = 0.0
    most = tl.full((1,), float("-inf"), tl.float32)
    for start in range(1):
        x = tl.load(x_ptr + start + at)
        larger = tl.maximum(most, tl.max(x, axis=0))
        total = total * tl.exp(most - larger) + tl.sum(tl.exp(x - larger), axis=0)
        most = larger
    inside = tl.minimum(tl.maximum(tl.load(id_ptr + at), 0), n - 1)
    relu = tl.maximum(tl.load(x_ptr + inside), 0.0)
    tl.store(out_ptr + at, relu * total / tl.maximum(total, 0.0))


@triton.jit
def never_above(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.clamp(x, -50.0, 50.0))


@triton.jit
def scaled(one: Any, other: Any, times: Any) -> Any:
    return one * times + other


@triton.jit
def in_a_function(x_ptr: Any, zero_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, scaled(x, tl.load(zero_ptr + at), 1.0))


@triton.jit
def without_data(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = scaled(tl.arange(0, BLOCK), 0, 1)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


@triton.jit
def rare_rounds(x_ptr: Any, zero_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    for _ in range(tl.load(zero_ptr).to(tl.int32)):
        x = x + x
    tl.atomic_add(out_ptr + at, tl.load(zero_ptr + at))
    tl.store(out_ptr + at, x)


@triton.jit
def by_functions(x_ptr: Any, zero_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    zero = tl.load(zero_ptr + at)
    y = tl.add(x, zero)
    y = libdevice.copysign(y, libdevice.fdim(x, zero - 3e9) * x)
    y = tl.reshape(y.to(tl.float32), (BLOCK,))
    tl.store(out_ptr + at, y)
    tl.atomic_cas(out_ptr.to(tl.pointer_type(tl.int32)) + at, tl.full((BLOCK,), 77, tl.int32), 3)
