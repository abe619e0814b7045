"""What a kernel adds up in 16 bits is seen in Triton's IR."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler import compile as compiled

from kernelagent.tools.virtual.compiled.short_sums import sums_in_16_bits


@triton.jit
def rows(x_ptr, out_ptr, n, SHORT: tl.constexpr):
    at = tl.arange(0, 64)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    total = tl.sum(x if SHORT else x.to(tl.float32), axis=0)
    tl.store(out_ptr, total.to(tl.float16))


@triton.jit
def products(x_ptr, out_ptr, n, SHORT: tl.constexpr):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    x = tl.load(x_ptr + at)
    product = tl.dot(x, x, out_dtype=tl.float16 if SHORT else tl.float32)
    tl.store(out_ptr + at, product.to(tl.float16))


@triton.jit
def loops(x_ptr, out_ptr, n, SHORT: tl.constexpr):
    at = tl.arange(0, 64)
    total = tl.zeros((64,), tl.float16 if SHORT else tl.float32)
    for start in range(0, n, 64):
        total += tl.load(x_ptr + start + at, mask=start + at < n, other=0.0)
    tl.store(out_ptr + at, total.to(tl.float16))


@triton.jit
def fetches(x_ptr, out_ptr, n, SHORT: tl.constexpr):
    at = tl.arange(0, 64)
    total = tl.zeros((64,), tl.float32)
    ahead = tl.load(x_ptr + at, mask=at < n, other=0.0)
    for start in range(64, n, 64):
        total += ahead
        ahead = tl.load(x_ptr + start + at, mask=start + at < n, other=0.0)
    tl.store(out_ptr + at, (total + ahead).to(tl.float16))


@triton.jit
def ranks(x_ptr, out_ptr, n, SHORT: tl.constexpr):
    at = tl.arange(0, 64)
    total = tl.zeros((64,), tl.int16 if SHORT else tl.int32)
    for start in range(0, n, 64):
        total += (tl.load(x_ptr + start + at, mask=start + at < n, other=0.0) > 0).to(total.dtype)
    tl.store(out_ptr + at, total.to(tl.float16))


@triton.jit
def scales_ahead(x_ptr, out_ptr, n, SHORT: tl.constexpr):
    at = tl.arange(0, 64)
    total = tl.zeros((64,), tl.float32)
    ahead = tl.load(x_ptr + at, mask=at < n, other=0.0) * 2
    largest = ahead
    for start in range(64, n, 64):
        total += ahead
        largest = tl.maximum(largest, ahead)
        ahead = tl.load(x_ptr + start + at, mask=start + at < n, other=0.0) * 2
    tl.store(out_ptr + at, (total + largest).to(tl.float16))


@triton.jit
def rounds_each(x_ptr, out_ptr, n, SHORT: tl.constexpr):
    at = tl.arange(0, 64)
    total = tl.zeros((64,), tl.float16 if SHORT else tl.float32)
    for start in range(0, n, 64):
        x = tl.load(x_ptr + start + at, mask=start + at < n, other=0.0).to(tl.float32)
        if start != 64:
            total = (total.to(tl.float32) * 0.5 + x).to(total.dtype)
    tl.store(out_ptr + at, total.to(tl.float16))


@triton.jit
def goes_on(x_ptr, out_ptr, n, SHORT: tl.constexpr):
    at = tl.arange(0, 64)
    total = tl.zeros((64,), tl.float16 if SHORT else tl.float32)
    start = 0
    while start < n:
        total += tl.load(x_ptr + start + at, mask=start + at < n, other=0.0)
        start += 64
    tl.store(out_ptr + at, total.to(tl.float16))


WORDS = {
    rows: "rows in float16",
    products: "the products of tiles in float16",
    loops: "round after round of a loop in float16",
    goes_on: "round after round of a loop in float16",
    rounds_each: "round after round of a loop in float16",
    ranks: "round after round of a loop in int16",
}


def ir_of(kernel: triton.JITFunction, *, short: bool) -> str:
    signature = {"x_ptr": "*fp16", "out_ptr": "*fp16", "n": "i32", "SHORT": "constexpr"}
    source = ASTSource(fn=kernel, signature=signature, constexprs={(3,): short})
    return str(compiled(source, target=GPUTarget("cuda", 90, 32)).asm["ttir"])


@pytest.mark.parametrize("kernel", WORDS, ids=lambda kernel: kernel.__name__)
def test_sums_in_16_bits_are_named_and_those_in_32_are_not(kernel: triton.JITFunction) -> None:
    assert sums_in_16_bits(ir_of(kernel, short=True)) == WORDS[kernel]
    assert sums_in_16_bits(ir_of(kernel, short=False)) is None


@pytest.mark.parametrize("kernel", [fetches, scales_ahead], ids=lambda kernel: kernel.__name__)
def test_what_is_loaded_a_round_ahead_and_what_is_the_largest_are_no_sums(
    kernel: triton.JITFunction,
) -> None:
    assert sums_in_16_bits(ir_of(kernel, short=True)) is None
