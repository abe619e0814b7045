"""Kernels that wait for what they did before, and honest ones that look like them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def chase_by_atomics(ring, out, steps):
    at = tl.program_id(0)
    for _ in range(steps):
        at = tl.atomic_add(ring + at, 0)
    tl.store(out + tl.program_id(0), at)


@triton.jit
def count_by_atomics(ring, out, steps):
    for step in range(steps):
        tl.atomic_add(ring + (tl.program_id(0) * 37 + step * 101) % 4096, 1)


@triton.jit
def same_place_for_all_lanes(ring, out, steps, BLOCK: tl.constexpr):
    for _ in range(steps):
        tl.atomic_add(ring + tl.zeros([BLOCK], tl.int32), 1)


@triton.jit
def chase_beside_a_copy(ring, out, steps, COPIES: tl.constexpr):
    at = tl.program_id(0)
    if COPIES:
        desc = tl.make_tensor_descriptor(ring, [64, 64], [64, 1], [16, 64])
        at = (at + tl.sum(desc.load([0, 0]))) % 4096
    for _ in range(steps):
        at = tl.load(ring + at)
    tl.store(out + tl.program_id(0), at)


@triton.jit
def rows_beside_a_copy(ring, out, steps, COPIES: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.int32)
    if COPIES:
        desc = tl.make_tensor_descriptor(ring, [64, 64], [64, 1], [16, 64])
        total += tl.sum(desc.load([0, 0]))
    for step in range(steps):
        total += tl.load(ring + step * BLOCK + lanes)
    tl.store(out + lanes, total)


@triton.jit
def divide_in_turn(ring, out, steps, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    given = tl.load(ring + lanes) + 1_000_000_007
    value = given
    for _ in range(steps):
        value = given % (value | 1)
    tl.store(out + lanes, value)


@triton.jit
def divide_side_by_side(ring, out, steps, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    given = tl.load(ring + lanes)
    value = given
    for step in range(steps):
        value ^= (given + step) // (given + step * 3 + 1)
    tl.store(out + tl.program_id(0) * BLOCK + lanes, value)


@triton.jit
def divide_where_programs_differ(ring, out, steps, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    given = tl.load(ring + lanes) + 1_000_000_007
    value = given
    for _ in range(steps * (tl.program_id(0) + 1)):
        value = given % (value | 1)
    tl.store(out + tl.program_id(0) * BLOCK + lanes, value)


@triton.jit
def by_places(x, out, n, columns, BLOCK: tl.constexpr, DIVIDES: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if DIVIDES:
        row, column = at // columns, at % columns
        at = row * columns + column
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


@triton.jit
def product(
    a, b, out, DEPTH, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, SPLIT: tl.constexpr
):
    """A tile by bulk copies; with `SPLIT`, several programs add their shares to it."""
    width = tl.num_programs(0)
    row, column = tl.program_id(0) // (width // 4), tl.program_id(0) % 4
    left = tl.make_tensor_descriptor(a, [512, 1024], [1024, 1], [M, K])
    right = tl.make_tensor_descriptor(b, [1024, 512], [512, 1], [K, N])
    total = tl.zeros([M, N], tl.float32)
    begin = tl.program_id(1) * DEPTH
    for k in range(begin, begin + DEPTH, K):
        total = tl.dot(left.load([row * M, k]), right.load([k, column * N]), total)
    rows, columns = row * M + tl.arange(0, M), column * N + tl.arange(0, N)
    places = out + rows[:, None] * 512 + columns[None, :]
    if SPLIT:
        tl.atomic_add(places, total)
    else:
        tl.store(places, total)


@triton.jit
def one_walks_all(ring, out, steps, BLOCK: tl.constexpr):
    """The first program reads everything, the others a block."""
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.int32)
    for step in range(tl.where(tl.program_id(0) == 0, steps, 1)):
        total += tl.load(ring + step * BLOCK + lanes)
    tl.store(out + tl.program_id(0) * BLOCK + lanes, total)


@triton.jit
def element(x, out, n, columns, BLOCK: tl.constexpr, WHAT: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in tl.static_range(8):
        if WHAT == "exp":
            value = tl.exp(value)
        elif WHAT == "sin":
            value = tl.sin(value)
        elif WHAT == "divide":
            value = columns / (value + 1.0)
        elif WHAT == "int64":
            value = value.to(tl.int64).to(tl.float32)
        elif WHAT == "int32":
            value = value.to(tl.int32).to(tl.float32)
        elif WHAT == "bf16":
            value = value.to(tl.bfloat16).to(tl.float32)
        else:
            value = value * columns + 1.0
    tl.store(out + at, value)
