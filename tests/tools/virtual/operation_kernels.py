"""Kernels that together ask Triton's builder for each of its operations, beside those of `batched_kernels`."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def whole_numbers(x, y, out, N: tl.constexpr):
    """Signed or unsigned, as the tensors are; 12 rows of results a program."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    to = out + tl.program_id(0) * N * 12 + tl.arange(0, N)
    tl.store(to, (a // b + a % b).to(tl.int64))
    tl.store(to + N, ((a << (b & 7)) + (a >> (b & 7))).to(tl.int64))
    tl.store(to + 2 * N, ((a & b) ^ (a | ~b)).to(tl.int64))
    tl.store(to + 3 * N, (a < b).to(tl.int64) + 2 * (a <= b).to(tl.int64))
    tl.store(to + 4 * N, (a > b).to(tl.int64) + 2 * (a >= b).to(tl.int64))
    tl.store(to + 5 * N, (a == b).to(tl.int64) + 2 * (a != b).to(tl.int64))
    tl.store(to + 6 * N, (tl.minimum(a, b) - tl.maximum(a, b)).to(tl.int64))
    tl.store(to + 7 * N, a.to(tl.int8).to(tl.int64) + b.to(tl.int16).to(tl.int64))
    tl.store(to + 8 * N, (a.to(tl.float32) * 0.5).to(tl.int64))
    tl.store(to + 9 * N, (b.to(tl.float64) * 1.5).to(tl.int64))
    tl.store(to + 10 * N, tl.umulhi(a, b).to(tl.int64))
    tl.store(to + 11 * N, tl.where(a > b, tl.abs(a), b).to(tl.int64))


@triton.jit
def fractions(x, y, out, N: tl.constexpr):
    """15 rows of results a program."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    to = out + tl.program_id(0) * N * 15 + tl.arange(0, N)
    tl.store(to, a / b + a % b - a * b + (-a))
    tl.store(to + N, (a < b).to(tl.float32) + 2 * (a <= b).to(tl.float32))
    tl.store(to + 2 * N, (a > b).to(tl.float32) + 2 * (a >= b).to(tl.float32))
    tl.store(to + 3 * N, (a == b).to(tl.float32) + 2 * (a != b).to(tl.float32))
    tl.store(to + 4 * N, tl.minimum(a, b) + tl.maximum(a, b))
    tl.store(to + 5 * N, tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(to + 6 * N, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(to + 7 * N, tl.div_rn(a, b) + tl.fdiv(b, a) + tl.sqrt_rn(tl.abs(a)))
    tl.store(to + 8 * N, tl.sqrt(tl.abs(a)) + tl.rsqrt(tl.abs(b)) + tl.exp(a))
    tl.store(to + 9 * N, tl.cos(a) + tl.log2(tl.abs(b)) + tl.ceil(a))
    tl.store(
        to + 10 * N,
        (a.to(tl.float16) + tl.full((N,), 1.5, tl.float16)) + b.to(tl.bfloat16).to(tl.float32),
    )
    tl.store(to + 11 * N, a.to(tl.float64).to(tl.float32) + (b.to(tl.uint8)).to(tl.float32))
    tl.store(to + 12 * N, a.to(tl.float8e5).to(tl.float32) + b.to(tl.float8e4nv).to(tl.float32))
    tl.store(to + 13 * N, a.to(tl.bfloat16, fp_downcast_rounding="rtz").to(tl.float32))
    tl.store(to + 14 * N, a.to(tl.int32, bitcast=True).to(tl.float32))


@triton.jit
def others(x, out, N: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.arange(0, N)
    a = tl.load(x + pid * N + at)
    bits = a.to(
        tl.core.get_int_dtype(bitwidth=a.dtype.primitive_bitwidth, signed=True), bitcast=True
    )
    a = bits.to(a.dtype, bitcast=True)
    tl.assume(pid >= 0)
    tl.device_assert(pid >= 0, "a program before the first")
    tl.debug_barrier()
    pairs = tl.cat(a, a * tl.num_programs(0), can_reorder=True)
    sizes = tl.full((1,), 2, tl.int32)
    first = tl.reshape(tl.sum(tl.reshape(a, (1, N)), 1), (1,))
    left, right = tl.split(tl.reshape(tl.join(sizes, sizes), (2,)))
    moved = (out + pid * 2 * N).to(tl.int64).to(tl.pointer_type(tl.float32), bitcast=True)
    both = tl.arange(0, 2 * N)
    tl.store(moved + both, tl.sort(pairs) + left * right + tl.sum(first))


@triton.jit
def scattered_rows(x, out, rows, M, N: tl.constexpr):
    at = tl.load(rows + tl.arange(0, 8))
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, N])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [1, N])
    target.scatter(source.gather(at, 0), at, 0)


@triton.jit
def scaled_product(a, b, s, t, out, M: tl.constexpr, K: tl.constexpr):
    square = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    turned = tl.arange(0, K)[:, None] * M + tl.arange(0, M)[None, :]
    parts = tl.arange(0, M)[:, None] * (K // 32) + tl.arange(0, K // 32)[None, :]
    left, right = tl.load(a + square), tl.load(b + turned)
    made = tl.dot_scaled(left, tl.load(s + parts), "e5m2", right, tl.load(t + parts), "e5m2")
    tl.store(out + tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :], made)


@triton.jit
def passed_on(x, out):
    """What Triton has since 3.9."""
    held = tl.atomic_load(x + tl.program_id(0))
    tl.atomic_store(out + tl.program_id(0), tl.fdiv(held * 1.0, 2.0, approx=True).to(tl.int32))
    tl.atomic_poll(x + tl.program_id(0), held)
