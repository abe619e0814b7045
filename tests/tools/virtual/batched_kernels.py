"""Kernels for the comparison of both ways to interpret: one for each thing a kernel may do."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + at, e / tl.sum(e, 0), mask=at < n)


@triton.jit
def layer_norm(x, w, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    keep = at < n
    v = tl.load(x + row * n + at, mask=keep, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    c = tl.where(keep, v - mean, 0.0)
    scale = tl.load(w + at, mask=keep)
    out = c * tl.rsqrt(tl.sum(c * c, 0) / n + eps) * scale
    tl.store(y + row * n + at, out.to(y.dtype.element_ty), mask=keep)


@triton.jit
def matmul(
    a, b, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    pid_m = first + (pid % (GROUP * columns)) % height
    pid_n = (pid % (GROUP * columns)) // height
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        inside = k * BK + rk < K
        x = tl.load(
            a + (rm % M)[:, None] * K + (k * BK + rk)[None, :], mask=inside[None, :], other=0.0
        )
        y = tl.load(
            b + (k * BK + rk)[:, None] * N + (rn % N)[None, :], mask=inside[:, None], other=0.0
        )
        acc = tl.dot(x, y, acc, input_precision="ieee")
    keep = (rm < M)[:, None] & (rn < N)[None, :]
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), mask=keep)


@triton.jit
def attention(q, k, v, o, T, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(1) * T * D
    start = tl.program_id(0) * BM
    rm, rd = start + tl.arange(0, BM), tl.arange(0, D)
    queries = tl.load(q + base + rm[:, None] * D + rd[None, :], mask=rm[:, None] < T, other=0.0)
    high = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for begin in range(0, min(start + BM, T), BN):
        rn = begin + tl.arange(0, BN)
        keys = tl.load(k + base + rn[None, :] * D + rd[:, None], mask=rn[None, :] < T, other=0.0)
        s = tl.dot(queries, keys, input_precision="ieee") * scale
        s = tl.where((rm[:, None] >= rn[None, :]) & (rn[None, :] < T), s, -float("inf"))
        new = tl.maximum(high, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        alpha = tl.exp(high - new)
        total = total * alpha + tl.sum(p, 1)
        values = tl.load(v + base + rn[:, None] * D + rd[None, :], mask=rn[:, None] < T, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(values.dtype), values, input_precision="ieee")
        high = new
    out = acc / total[:, None]
    tl.store(o + base + rm[:, None] * D + rd[None, :], out, mask=rm[:, None] < T)


@triton.jit
def cross_entropy(x, target, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    wanted = tl.load(target + row)
    if wanted < 0:
        tl.store(out + row, 0.0)
        return
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    high = tl.max(v, 0)
    total = tl.sum(tl.exp(v - high), 0)
    tl.store(out + row, tl.log(total) + high - tl.load(x + row * n + wanted))


@triton.jit
def scan(x, y, n, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(y + row * n + at, tl.cumsum(v, 0, reverse=REVERSE), mask=at < n)


@triton.jit
def _affine(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def _longer(a, b):
    return tl.where(tl.abs(a) > tl.abs(b), a, b)


@triton.jit
def own_combines(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    _, h = tl.associative_scan((v, v), 0, _affine)
    tl.store(y + at, h + tl.reduce(v, 0, _longer))


@triton.jit
def _first_longest(a, i, b, j):
    takes = (tl.abs(a) > tl.abs(b)) | ((tl.abs(a) == tl.abs(b)) & (i < j))
    return tl.where(takes, a, b), tl.where(takes, i, j)


@triton.jit
def own_combines_with_places(x, y, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    at = tl.program_id(0) * BLOCK + lanes
    v = tl.load(x + at)
    best, place = tl.reduce((v, lanes), 0, _first_longest)
    _, places = tl.associative_scan((v, lanes), 0, _first_longest)
    tl.store(y + at, places + place + best)


@triton.jit
def divergent(x, y, lengths, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    length = tl.load(lengths + row)
    at = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    count = 0
    for i in range(length):
        v = tl.load(x + row * n + at + i, mask=at + i < n, other=0.0)
        if i % 2 == 0:
            acc += v
        else:
            if tl.sum(v, 0) > 0.0:
                acc -= v
                count += 1
    while count > 2:
        acc = acc * 0.5
        count -= length
    scale = 2.0 if length > 3 else 0.25
    if (length > 1 and count < 2) or not length > 0:
        acc += count
    tl.store(y + row * n + at, acc * scale, mask=at < n)


@triton.jit
def _signed(v, flag):
    if flag > 0:
        return v
    return -v


@triton.jit
def called(x, y, flags, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(y + row * n + at, _signed(v, tl.load(flags + row)), mask=at < n)


@triton.jit
def counting_loop(x, y, rows, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for r in range(rows):
        wide = r.to(tl.int64) if isinstance(r, tl.tensor) else 0
        acc += tl.load(x + wide * n + at, mask=at < n, other=0.0)
    for s in tl.static_range(3):
        acc += s
    for s in tl.range(rows, 0, -1):
        acc *= 1.0 + s
    tl.store(y + at, acc, mask=at < n)


@triton.jit
def shapes(x, y, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK * 4 + tl.arange(0, BLOCK * 4)
    v = tl.load(x + at)
    square = tl.reshape(v, (BLOCK, 4))
    turned = tl.trans(square)
    left, right = tl.split(tl.reshape(v, (BLOCK * 2, 2)))
    joined = tl.reshape(tl.join(right, left), (BLOCK * 4,))
    flipped = tl.flip(joined, 0)
    sums = tl.sum(square, 1, keep_dims=True) + tl.sum(turned, 0)[:, None]
    best, place = tl.max(square, 1, return_indices=True)
    tl.store(y + at, flipped + tl.reshape(tl.broadcast_to(sums, (BLOCK, 4)), (BLOCK * 4,)))
    where = pid * BLOCK * 4 + tl.arange(0, BLOCK)
    tl.debug_barrier()
    tl.store(y + where, best + place + tl.argmin(square, 1) + tl.sum(v), mask=place > 0)


@triton.jit
def sorting(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.sort(tl.load(x + at))
    small = tl.gather(v, (tl.arange(0, BLOCK) * 7) % BLOCK, 0)
    counts = tl.histogram(tl.minimum((tl.abs(v) * 4).to(tl.int32), BLOCK - 1), BLOCK)
    tl.store(y + at, small + counts + tl.randint(7, at) % 3)


@triton.jit
def functions(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    w = libdevice.tanh(v) + tl.erf(v) + tl.sigmoid(v) + tl.sin(v) + tl.exp2(v)
    w = tl.fma(w, v, tl.floor(v)) + tl.clamp(v, -0.5, 0.5)
    w += libdevice.pow(tl.abs(v), 0.3) + tl.log(tl.abs(v) + 1)
    tl.store(y + at, w)


@triton.jit
def add_up(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n)
    tl.atomic_add(y + at, v, mask=at < n)


@triton.jit
def tickets(x, y, counter, n, BLOCK: tl.constexpr):
    mine = tl.atomic_add(counter, 1)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + mine * n + at, mask=at < n)
    tl.store(y + mine * n + at, v + mine, mask=at < n)


@triton.jit
def twice_added(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n)
    for i in range(3):
        tl.atomic_add(y + at, v * (1 + i), mask=at < n)


@triton.jit
def last_one_sums(x, part, y, counter, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(part + row, tl.sum(tl.load(x + row * n + at, mask=at < n, other=0.0)))
    if tl.atomic_add(counter, 1) == tl.num_programs(0) - 1:
        total = 0.0
        for i in range(tl.num_programs(0)):
            total += tl.load(part + i)
        tl.store(y, total)


@triton.jit
def locked(x, y, lock, n):
    row = tl.program_id(0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(y, tl.load(y) + tl.load(x + row * n))
    tl.atomic_xchg(lock, 0)


@triton.jit
def racing(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(y + at, tl.load(y + at, mask=at < n) + v, mask=at < n)


@triton.jit
def agreeing(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * 2)


@triton.jit
def overlapping(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row * (BLOCK // 2) + at, tl.load(x + row * n + at, mask=at < n))


@triton.jit
def far_away(x, y, n, wild, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n)
    if row == wild:
        v += tl.load(x + 1000000 + at)
    tl.store(y + row * n + at, v, mask=at < n)


@triton.jit
def torn(x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row * BLOCK + at // 2, tl.load(x + at))


@triton.jit
def in_place(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


@triton.jit
def described(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(y, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    block = source.load([row, column])
    target.store([row, column], block * 2)


@triton.jit
def flagged(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    first = tl.program_id(0) == 0
    at = tl.arange(0, BLOCK)
    keep = (at < n) & (at % 3 != row % 3)
    v = tl.load(x + row * n + at, mask=keep)
    v = tl.where(keep, v, 1.5)
    if first:
        v += 1
    tl.store(y + row * n + at, v, mask=(at < n) & (at % 2 == row % 2))


@triton.jit
def columns(x, y, M, N, BM: tl.constexpr):
    column = tl.program_id(0)
    rows = tl.arange(0, BM)
    v = tl.load(x + rows * N + column, mask=rows < M, other=0.0)
    tl.store(y + column * M + rows, v - tl.sum(v, 0), mask=rows < M)


@triton.jit
def printing(x, y):
    row = tl.program_id(0)
    tl.device_print("row", row)
    tl.store(y + row, tl.load(x + row))


@triton.jit
def mixed_atomics(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n)
    tl.atomic_add(y + at, v, mask=at < n)
    tl.atomic_max(y + at, v * 2, mask=at < n)
    tl.atomic_add(y + at, tl.atomic_add(y + n + at, v, mask=at < n), mask=at < n)


@triton.jit
def counted_twice(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    for _ in range(2):
        tl.atomic_add(y + tl.load(x + row * n + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def one_product(a, b, c, PRECISION: tl.constexpr):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)[:, None]
    inner, cols = tl.arange(0, 32), tl.arange(0, 32)[None, :]
    left = tl.load(a + rows * 32 + inner[None, :])
    right = tl.load(b + inner[:, None] * 32 + cols)
    tl.store(c + rows * 32 + cols, tl.dot(left, right, input_precision=PRECISION))


@triton.jit
def by_block_pointers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    left = tl.make_block_ptr(a, (M, K), (K, 1), (row, 0), (BM, BK), (1, 0))
    right = tl.make_block_ptr(b, (K, N), (N, 1), (0, column), (BK, BN), (1, 0))
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(left, boundary_check=(0, 1), padding_option="zero")
        total += tl.dot(x, tl.load(right, boundary_check=(0, 1), padding_option="zero"))
        left, right = tl.advance(left, (0, BK)), tl.advance(right, (BK, 0))
    out = tl.make_block_ptr(c, (M, N), (N, 1), (row, column), (BM, BN), (1, 0))
    tl.store(out, total.to(c.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def block_pointers_that_part(x, y, lengths, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.make_block_ptr(x + pid * n, (n,), (1,), (0,), (BLOCK,), (0,))
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(tl.load(lengths + pid)):
        total += tl.load(at, boundary_check=(0,)) + 1
        at = tl.advance(at, (3,))
    if pid % 3 == 1:
        at = tl.advance(at, (-2,))
    total += tl.load(at, boundary_check=(0,), padding_option="nan")
    out = tl.make_block_ptr(y + pid * n, (n,), (1,), (0,), (BLOCK,), (0,))
    tl.store(out, total, boundary_check=(0,))


@triton.jit
def masked_numbers(x, y, n):
    """One number a program, some of them beyond the end."""
    at = tl.program_id(0)
    here = at < n
    zero = tl.load(x + at, mask=here, other=0.0)
    seven = tl.load(x + at, mask=here, other=7.0)
    tl.store(y + at, zero + 2 * seven, mask=at % 3 != 1)


@triton.jit
def running(x, y, n, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    for i in range(ROUNDS):
        value = tl.load(x + at + i * BLOCK)
        tl.store(y + at + (i + 1) * BLOCK, value + 1)
