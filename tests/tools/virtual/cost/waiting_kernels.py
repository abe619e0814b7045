"""Kernels that wait for each round's loads in turn, and honest ones that load ahead; sums over warps; atomics."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def stores_before_it_loads(x, out, rows, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        total += tl.load(x + row * BLOCK + lanes)
        tl.store(out + row * BLOCK + lanes, total)


@triton.jit
def stores_before_it_loads_unrolled(x, out, rows, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for row in tl.static_range(64):
        total += tl.load(x + row * BLOCK + lanes)
        tl.store(out + row * BLOCK + lanes, total)


@triton.jit
def stores_at_the_end(x, out, rows, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        total += tl.load(x + row * BLOCK + lanes)
    tl.store(out + lanes, total)


@triton.jit
def reads_twice(x, out, rows, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        total += tl.load(x + row * BLOCK + lanes)
    for row in range(rows):
        again = tl.load(x + row * BLOCK + lanes)
        tl.store(out + row * BLOCK + lanes, again - total)


@triton.jit
def loads_once(x, out, rows, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes) + rows)


@triton.jit
def narrow_rounds_beside_a_wide_load(x, out, rows, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    wide = tl.arange(0, 32 * BLOCK)
    head = tl.load(x + wide, mask=wide < BLOCK, other=0.0)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        total += tl.load(x + row * BLOCK + lanes, mask=lanes < 20, other=0.0)
    tl.store(out + lanes, total + tl.sum(head, axis=0))


@triton.jit
def sums_in_turn(x, out, rows, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    for _ in range(rows):
        value = value * 0.5 + tl.sum(value, axis=0) / BLOCK
    tl.store(out + lanes, value)


@triton.jit
def running_sums_in_turn(x, out, rows, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    for _ in range(rows):
        value = tl.cumsum(value, axis=0) / BLOCK
    tl.store(out + lanes, value)


@triton.jit
def counts(x, out, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(x + lanes), 1)


@triton.jit
def counts_all(x, out, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + lanes * 0, tl.load(x + lanes))
