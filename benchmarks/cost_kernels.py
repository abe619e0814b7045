"""Good and bad Triton kernels for five operations, for the estimate's ordering and calibration."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_relu(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, tl.maximum(total, 0.0), mask=inside)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def relu(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.maximum(tl.load(x + at, mask=inside), 0.0), mask=inside)


@triton.jit
def add_relu_reading_four_places(x, y, out, n, quarter, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for turn in range(4):
        place = (at + turn * quarter) % n
        total += tl.where(turn == 0, tl.load(x + place) + tl.load(y + place), 0.0)
    tl.store(out + at, tl.maximum(total, 0.0), mask=at < n)


@triton.jit
def add_relu_by_columns(x, y, out, columns, BLOCK: tl.constexpr):
    rows = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = rows * columns + tl.program_id(0)
    tl.store(out + at, tl.maximum(tl.load(x + at) + tl.load(y + at), 0.0))


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < columns
    row = tl.load(x + at, mask=inside, other=-float("inf")).to(tl.float32)
    raised = tl.exp(row - tl.max(row, 0))
    tl.store(out + at, (raised / tl.sum(raised, 0)).to(out.dtype.element_ty), mask=inside)


@triton.jit
def softmax_in_three_passes(x, out, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0) * columns
    lanes = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        largest = tl.maximum(largest, tl.load(x + start + first + lanes).to(tl.float32))
    top = tl.max(largest, 0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        total += tl.exp(tl.load(x + start + first + lanes).to(tl.float32) - top)
    whole = tl.sum(total, 0)
    for first in range(0, columns, BLOCK):
        raised = tl.exp(tl.load(x + start + first + lanes).to(tl.float32) - top)
        tl.store(out + start + first + lanes, (raised / whole).to(out.dtype.element_ty))


@triton.jit
def row_maximum(x, top, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    tl.store(top + tl.program_id(0), tl.max(tl.load(x + at).to(tl.float32), 0))


@triton.jit
def row_sum_of_exponentials(x, top, total, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    row = tl.load(x + at).to(tl.float32) - tl.load(top + tl.program_id(0))
    tl.store(total + tl.program_id(0), tl.sum(tl.exp(row), 0))


@triton.jit
def normalise_exponentials(x, top, total, out, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    row = tl.load(x + at).to(tl.float32) - tl.load(top + tl.program_id(0))
    value = tl.exp(row) / tl.load(total + tl.program_id(0))
    tl.store(out + at, value.to(out.dtype.element_ty))


@triton.jit
def softmax_of_many_rows(x, out, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * columns + tl.arange(0, BLOCK)[None, :]
    tile = tl.load(x + at).to(tl.float32)
    raised = tl.exp(tile - tl.max(tile, 1)[:, None])
    value = raised / tl.sum(raised, 1)[:, None]
    tl.store(out + at, value.to(out.dtype.element_ty))


@triton.jit
def layer_norm(x, weight, bias, out, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + lanes
    row = tl.load(x + at).to(tl.float32)
    centred = row - tl.sum(row, 0) / columns
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + 1e-5)
    value = centred * scale * tl.load(weight + lanes) + tl.load(bias + lanes)
    tl.store(out + at, value.to(out.dtype.element_ty))


@triton.jit
def row_statistics(x, mean, scale, columns, BLOCK: tl.constexpr):
    row = tl.load(x + tl.program_id(0) * columns + tl.arange(0, BLOCK)).to(tl.float32)
    centre = tl.sum(row, 0) / columns
    variance = tl.sum((row - centre) * (row - centre), 0) / columns
    tl.store(mean + tl.program_id(0), centre)
    tl.store(scale + tl.program_id(0), tl.rsqrt(variance + 1e-5))


@triton.jit
def apply_statistics(x, mean, scale, weight, bias, out, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + lanes
    centred = tl.load(x + at).to(tl.float32) - tl.load(mean + tl.program_id(0))
    scaled = centred * tl.load(scale + tl.program_id(0))
    value = scaled * tl.load(weight + lanes) + tl.load(bias + lanes)
    tl.store(out + at, value.to(out.dtype.element_ty))


@triton.jit
def layer_norm_by_columns(x, mean, scale, weight, bias, out, columns, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    rows = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = rows * columns + column
    centred = tl.load(x + at).to(tl.float32) - tl.load(mean + rows)
    value = centred * tl.load(scale + rows) * tl.load(weight + column) + tl.load(bias + column)
    tl.store(out + at, value.to(out.dtype.element_ty))


@triton.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def matmul(
    a,
    b,
    bias,
    out,
    columns,
    depth,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    FUSED: tl.constexpr,
):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    cols = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    left = a + rows[:, None] * depth + inner[None, :]
    right = b + inner[:, None] * columns + cols[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(0, depth, K):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += K
        right += K * columns
    if FUSED:
        total = gelu(total + tl.load(bias + cols).to(tl.float32)[None, :])
    at = rows[:, None] * columns + cols[None, :]
    tl.store(out + at, total.to(out.dtype.element_ty))


@triton.jit
def bias_gelu(x, bias, out, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + lanes
    value = gelu(tl.load(x + at).to(tl.float32) + tl.load(bias + lanes).to(tl.float32))
    tl.store(out + at, value.to(out.dtype.element_ty))


@triton.jit
def matmul_without_dot(a, b, bias, out, columns, depth, M: tl.constexpr, N: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    cols = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for k in range(depth):
        left = tl.load(a + rows * depth + k).to(tl.float32)
        right = tl.load(b + k * columns + cols).to(tl.float32)
        total += left[:, None] * right[None, :]
    value = gelu(total + tl.load(bias + cols).to(tl.float32)[None, :])
    at = rows[:, None] * columns + cols[None, :]
    tl.store(out + at, value.to(out.dtype.element_ty))


@triton.jit
def cross_entropy(x, labels, loss, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0) * columns
    lanes = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        inside = first + lanes < columns
        part = tl.load(x + start + first + lanes, mask=inside, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, part)
        total = total * tl.exp(top - higher) + tl.exp(part - higher)
        top = higher
    largest = tl.max(top, 0)
    picked = tl.load(x + start + tl.load(labels + tl.program_id(0))).to(tl.float32)
    whole = tl.sum(total * tl.exp(top - largest), 0)
    tl.store(loss + tl.program_id(0), largest + tl.log(whole) - picked)


@triton.jit
def cross_entropy_in_two_passes(x, labels, loss, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0) * columns
    lanes = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        inside = first + lanes < columns
        part = tl.load(x + start + first + lanes, mask=inside, other=-float("inf"))
        top = tl.maximum(top, part.to(tl.float32))
    largest = tl.max(top, 0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        inside = first + lanes < columns
        part = tl.load(x + start + first + lanes, mask=inside, other=-float("inf"))
        total += tl.exp(part.to(tl.float32) - largest)
    picked = tl.load(x + start + tl.load(labels + tl.program_id(0))).to(tl.float32)
    tl.store(loss + tl.program_id(0), largest + tl.log(tl.sum(total, 0)) - picked)


@triton.jit
def log_softmax(x, out, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0) * columns
    lanes = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        inside = first + lanes < columns
        part = tl.load(x + start + first + lanes, mask=inside, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, part)
        total = total * tl.exp(top - higher) + tl.exp(part - higher)
        top = higher
    largest = tl.max(top, 0)
    whole = largest + tl.log(tl.sum(total * tl.exp(top - largest), 0))
    for first in range(0, columns, BLOCK):
        inside = first + lanes < columns
        part = tl.load(x + start + first + lanes, mask=inside, other=0.0).to(tl.float32)
        value = (part - whole).to(out.dtype.element_ty)
        tl.store(out + start + first + lanes, value, mask=inside)


@triton.jit
def pick_label(x, labels, loss, columns, rows, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < rows
    place = at * columns + tl.load(labels + at, mask=inside, other=0)
    tl.store(loss + at, -tl.load(x + place, mask=inside).to(tl.float32), mask=inside)
