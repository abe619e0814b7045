"""A loop that says itself how far ahead it loads is believed before the launch is."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler import compile as compiled

from kernelagent.tools.virtual.compiled.loop_stages import loop_stages


@triton.jit
def product(x_ptr, out_ptr, n, OWN: tl.constexpr, BESIDE: tl.constexpr):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    total = tl.zeros((32, 32), tl.float32)
    if OWN:
        for start in tl.range(0, n, 1024, num_stages=OWN):
            x = tl.load(x_ptr + start + at)
            total = tl.dot(x, x, total)
    else:
        for start in range(0, n, 1024):
            x = tl.load(x_ptr + start + at)
            total = tl.dot(x, x, total)
    if BESIDE:
        for start in tl.range(0, n, 1024, num_stages=BESIDE):
            total += tl.load(x_ptr + start + at).to(tl.float32)
    tl.store(out_ptr + at, total.to(tl.float16))


@triton.jit
def total(x_ptr, out_ptr, n, OWN: tl.constexpr, BESIDE: tl.constexpr):
    at = tl.arange(0, 64)
    result = tl.zeros((64,), tl.float32)
    for start in tl.range(0, n, 64, num_stages=OWN):
        result += tl.load(x_ptr + start + at)
    tl.store(out_ptr + at, result.to(tl.float16))


@triton.jit
def two_products(x_ptr, out_ptr, n, OWN: tl.constexpr, BESIDE: tl.constexpr):
    """A long loop, and one of few rounds; `OWN` rounds at a time of the long one, `BESIDE` rounds of the short one."""
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    total = tl.zeros((32, 32), tl.float32)
    for start in tl.range(0, 64 * 1024, 1024, num_stages=OWN):
        x = tl.load(x_ptr + start + at)
        total = tl.dot(x, x, total)
    for start in tl.range(0, BESIDE * 1024, 1024, num_stages=1):
        x = tl.load(x_ptr + start + at)
        total = tl.dot(x, x, total)
    tl.store(out_ptr + at, total.to(tl.float16))


@pytest.mark.parametrize(
    ("kernel", "own", "beside", "expected"),
    [
        (product, 0, 0, 3),
        (product, 4, 0, 4),
        (product, 2, 7, 2),
        (product, 0, 7, 3),
        (total, 5, 0, 5),
        (two_products, 4, 3, 4),
        (two_products, 4, 30, 1),
    ],
)
def test_the_stages_of_the_loops_that_multiply_count(
    kernel: triton.JITFunction, own: int, beside: int, expected: int
) -> None:
    signature = {"x_ptr": "*fp16", "out_ptr": "*fp16", "n": "i32"}
    signature |= {"OWN": "constexpr", "BESIDE": "constexpr"}
    source = ASTSource(fn=kernel, signature=signature, constexprs={(3,): own, (4,): beside})
    ttir = str(compiled(source, target=GPUTarget("cuda", 90, 32)).asm["ttir"])
    assert loop_stages(ttir, 3) == expected
