"""Whole numbers that are added up in floating point, and made whole again, are seen in Triton's IR."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler import compile as compiled

from kernelagent.tools.virtual.compiled.whole_sums import sums_whole_numbers_in_floats


@triton.jit
def products(x_ptr, out_ptr, n, KIND: tl.constexpr):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    total = tl.zeros((32, 32), KIND)
    for start in range(0, n, 1024):
        x = tl.load(x_ptr + start + at)
        x = x if tl.int32 == KIND else x.to(tl.float16)
        total = tl.dot(x, x, total, out_dtype=KIND)
    tl.store(out_ptr + at, total.to(tl.int32))


@triton.jit
def rows(x_ptr, out_ptr, n, KIND: tl.constexpr):
    at = tl.arange(0, 64)
    x = tl.load(x_ptr + at, mask=at < n, other=0).to(KIND)
    tl.store(out_ptr + at, tl.sum(x, 0).to(tl.int32), mask=at < 1)


@triton.jit
def rounds(x_ptr, out_ptr, n, KIND: tl.constexpr):
    at = tl.arange(0, 64)
    total = tl.zeros((64,), KIND)
    for start in range(0, n, 64):
        total += tl.load(x_ptr + start + at, mask=start + at < n, other=0).to(KIND)
    tl.store(out_ptr + at, total.to(tl.int32))


@triton.jit
def quantises(x_ptr, out_ptr, n, KIND: tl.constexpr):
    at = tl.arange(0, 64)
    for start in range(0, n, 64):
        x = tl.load(x_ptr + start + at, mask=start + at < n, other=0).to(KIND)
        tl.store(out_ptr + start + at, (x * 0.5).to(tl.int32), mask=start + at < n)


@triton.jit
def rounds_each(x_ptr, out_ptr, n, KIND: tl.constexpr):
    at = tl.arange(0, 64)
    for start in range(0, n, 64):
        x = tl.load(x_ptr + start + at, mask=start + at < n, other=0).to(KIND)
        tl.store(out_ptr + start + at, (x * 0.5 + 0.5).to(tl.int32), mask=start + at < n)


@triton.jit
def blurs(x_ptr, out_ptr, n, KIND: tl.constexpr):
    at = tl.arange(0, 64)
    total = tl.zeros((64,), KIND)
    for tap in range(n):
        total += tl.load(x_ptr + at + tap).to(KIND) * 0.3333
    tl.store(out_ptr + at, total.to(tl.int32))


def seen(kernel: triton.JITFunction, kind: tl.dtype) -> bool:
    signature = {"x_ptr": "*i8", "out_ptr": "*i32", "n": "i32", "KIND": "constexpr"}
    source = ASTSource(fn=kernel, signature=signature, constexprs={(3,): kind})
    module = compiled(source, target=GPUTarget("cuda", 90, 32))
    return sums_whole_numbers_in_floats(str(module.asm["ttir"]))


@pytest.mark.parametrize("kernel", [products, rows, rounds], ids=lambda kernel: kernel.__name__)
def test_sums_in_float32_are_seen_and_those_in_int32_are_not(kernel: triton.JITFunction) -> None:
    assert seen(kernel, tl.float32)
    assert not seen(kernel, tl.int32)


def test_float64_has_them_all_and_numbers_that_are_scaled_one_by_one_are_no_sum() -> None:
    assert not seen(rows, tl.float64)
    assert not seen(rounds, tl.float64)
    assert not any(seen(kernel, tl.float32) for kernel in (quantises, rounds_each, blurs))
