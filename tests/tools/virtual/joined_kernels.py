"""Kernels whose conditions are joined of several: a rare one behind a harmless one, and honest ones."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def rare(x: Any) -> Any:
    """In a band that no number of the tests is in, though many are on either side of each of its ends."""
    return (x > 3.1) & (x < 3.2)


@triton.jit
def by_operators(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.where((x == 12345.5) | (x > 5.0), 1.0, x))


@triton.jit
def by_a_band(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.where(((x > 3.1) & (x < 3.2)) | (x > 5.0), 1.0, x))


@triton.jit
def by_two_that_each_happen(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.where(((x > 3.1) | (x > 5.0)) & ((x < 3.2) | (x > 5.0)), 1.0, x))


@triton.jit
def by_names(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    above = x > 3.1
    below = x < 3.2
    large = x > 5.0
    first = above | large
    second = below | large
    tl.store(out_ptr + at, tl.where(first & second, 1.0, x))


@triton.jit
def by_exclusive_or(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    large = x > 5.0
    tl.store(out_ptr + at, tl.where(rare(x) ^ large, 1.0, x))


@triton.jit
def by_negations(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.where((~(~(x > 3.1) | ~(x < 3.2))) | (x > 5.0), 1.0, x))


@triton.jit
def by_a_sum(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    votes = (x > 3.1).to(tl.int32) + (x < 3.2).to(tl.int32) + 2 * (x > 5.0).to(tl.int32)
    tl.store(out_ptr + at, tl.where(votes >= 2, 1.0, x))


@triton.jit
def by_a_maximum_of_truths(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    both = tl.minimum((x > 3.1).to(tl.float32), (x < 3.2).to(tl.float32))
    tl.store(out_ptr + at, tl.where(tl.maximum(both, (x > 5.0).to(tl.float32)) > 0.5, 1.0, x))


@triton.jit
def by_a_maximum_of_numbers(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    sure = tl.maximum(0.2 - tl.abs(x - 3.0), x - 5.0)
    tl.store(out_ptr + at, tl.where(sure > 0.0, 1.0, x))


@triton.jit
def by_choosing(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    either = tl.where(x > 5.0, 1, tl.where(x > 3.1, (x < 3.2).to(tl.int32), 0))
    tl.store(out_ptr + at, tl.where(either, 1.0, x))


@triton.jit
def by_or(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    first = tl.load(x_ptr + tl.program_id(0))
    if first > -20.0 or (first > -20.4 and first < -20.3):
        x = x * 1.5
    tl.store(out_ptr + at, x)


@triton.jit
def by_a_mask(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    large = (x > 5.0)[None, :]
    seen = tl.trans(rare(x)[None, :] != large).T
    tl.store(out_ptr + at[None, :], x[None, :], mask=seen)


@triton.jit
def by_a_side(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    above = x > 3.1
    if tl.program_id(0) == 1:
        above = x > 3.05
    tl.store(out_ptr + at, tl.where((above & (x < 3.2)) | (x > 5.0), 1.0, x))


@triton.jit
def honest(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, 1)
    mask = (rows < tl.num_programs(0) * BLOCK)[:, None] & (columns < 1)[None, :]
    x = tl.load(x_ptr + rows[:, None] + columns[None, :], mask=mask, other=0.0)
    inside = (x > -9.0) & (x < 7.0)
    outside = (x < -10.0) | (x > 8.0)
    level = (x > -5.0).to(tl.int32) + (x > 0.0).to(tl.int32) + (x > 5.0).to(tl.int32)
    y = tl.where(mask & inside, x, tl.where(outside & mask, 2 * x, 0.0))
    y = (y + tl.maximum(x, 0.1 * x)) * (1 + level)
    y = tl.where(y > 3.0, y * 2, y - 1.0)
    larger = tl.maximum(x, 4.0 - x)
    y = tl.where(larger > 6.0, y, larger)
    tl.store(out_ptr + rows[:, None] + columns[None, :], y, mask=mask & (x != -2.5))


@triton.jit
def larger(one: Any, other: Any) -> Any:
    return one > other


@triton.jit
def by_calls_of_one_function(x_ptr: Any, out_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.where(larger(x, 12345.5) | larger(x, 5.0), 1.0, x))
