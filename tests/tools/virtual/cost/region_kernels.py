"""Kernels whose time is in what the compiler adds, in what lanes repeat, or in waiting for other programs."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def transposes(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    square = tl.reshape(tl.load(x + lanes), (16, BLOCK // 16))
    for _ in range(turns):
        square = tl.reshape(tl.trans(square), (16, BLOCK // 16)) + 1.0
    tl.store(out + lanes, tl.reshape(square, (BLOCK,)))


@triton.jit
def rarely_transposes(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    square = tl.reshape(tl.load(x + lanes), (16, BLOCK // 16))
    for turn in range(turns):
        if turn % 10 == 9:
            square = tl.reshape(tl.trans(square), (16, BLOCK // 16))
        square += 1.0
    tl.store(out + lanes, tl.reshape(square, (BLOCK,)))


@triton.jit
def of_rows(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    rows = tl.sum(tl.reshape(tl.load(x + lanes), (64, BLOCK // 64)), 1)
    for _ in range(turns):
        rows = tl.exp(-rows)
    tl.store(out + tl.arange(0, 64), rows)


@triton.jit
def of_elements(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    for _ in range(turns):
        value = tl.exp(-value)
    tl.store(out + lanes, value)


@triton.jit
def gathers(x, out, turns, BLOCK: tl.constexpr, STEP: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    for _ in range(turns):
        value = tl.gather(value, (lanes * STEP) % BLOCK, 0)
    tl.store(out + lanes, value)


@triton.jit
def loads_single_numbers(x, out, turns, never, BLOCK: tl.constexpr, DEAD: tl.constexpr):
    total = 0.0
    for turn in range(never):
        for k in tl.static_range(DEAD):
            total += tl.load(x + turn + 3 * k)
    for turn in range(turns):
        total += tl.load(x + turn)
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def through_memory(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    for _ in range(turns):
        tl.store(out + lanes, value)
        tl.debug_barrier()
        value = tl.load(out + lanes)
        tl.debug_barrier()
    tl.store(out + lanes, value)


@triton.jit
def locked(x, out, flag, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    while tl.atomic_cas(flag, 0, 1) == 1:
        pass
    tl.store(out + lanes, tl.load(out + lanes) + tl.load(x + lanes))
    tl.debug_barrier()
    tl.atomic_xchg(flag, 0)


@triton.jit
def in_line_by_stores(x, out, flag, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    while tl.load(flag, volatile=True) < row:
        pass
    tl.store(out + row * BLOCK + lanes, tl.load(x + lanes))
    tl.debug_barrier()
    tl.store(flag, row + 1)


@triton.jit
def counted(x, out, flag, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    tl.store(out + row * BLOCK + lanes, tl.load(x + lanes))
    if tl.atomic_add(flag, 1) == tl.num_programs(0) - 1:
        tl.store(flag, 0)


@triton.jit
def by_values(x, out, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    for _ in range(tl.max(value, 0).to(tl.int32) // 1000):
        value = value * 0.5
    tl.store(out + lanes, value)


@triton.jit
def unrolled(x, out, turns, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for turn in tl.range(0, turns, loop_unroll_factor=ROUNDS):
        total += tl.exp(tl.load(x + (turn + tl.arange(0, BLOCK)) % 1024))
    tl.store(out + at, total)


@triton.jit
def unrolled_by_constants(x, out, TURNS: tl.constexpr, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for turn in tl.range(0, TURNS, loop_unroll_factor=ROUNDS):
        total += tl.exp(tl.load(x + (turn + tl.arange(0, BLOCK)) % 1024))
    tl.store(out + at, total)


@triton.jit
def _summed(x, total, begin, end, step, BLOCK: tl.constexpr):
    for turn in range(begin, end, step):
        total += tl.exp(tl.load(x + (turn + tl.arange(0, BLOCK)) % 1024))
    return total


@triton.jit
def as_if_unrolled(x, out, turns, BLOCK: tl.constexpr):
    """The second loop begins where the first one ends, and counts a quarter of its steps."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for second in tl.static_range(2):
        begin, end = 4 * turns * second, 4 * turns + turns * second
        total = _summed(x, total, begin, end, 4 - 3 * second, BLOCK)
    tl.store(out + at, total)


@triton.jit
def _unrolled_sum(x, total, turns, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    for turn in tl.range(0, turns, loop_unroll_factor=ROUNDS):
        total += tl.exp(tl.load(x + (turn + tl.arange(0, BLOCK)) % 1024))
    return total


@triton.jit
def unrolled_in_two_ways(x, out, turns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    total = _unrolled_sum(x, total, turns, BLOCK, 1)
    total = _unrolled_sum(x, total, turns, BLOCK, 8)
    total = _unrolled_sum(x, total, 0, BLOCK, 4096)
    tl.store(out + at, total)
