"""A place in memory that is computed by floating point numbers is seen in Triton's IR, with its line."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler import compile as compiled

from kernelagent.tools.virtual.compiled.float_places import places_by_floats


@triton.jit
def by_a_reciprocal(x_ptr, out_ptr, n, inverse):
    at = tl.program_id(0) * 64 + tl.arange(0, 64)
    plane = (at.to(tl.float32) * inverse).to(tl.int32)
    x = tl.load(x_ptr + plane, mask=at < n, other=0.0)
    tl.store(out_ptr + at, x, mask=at < n)


@triton.jit
def in_a_loop(x_ptr, out_ptr, n, inverse):
    at = tl.arange(0, 64)
    place = (at.to(tl.float32) * inverse).to(tl.int32)
    total = tl.zeros((64,), tl.float32)
    for _ in range(n):
        total += tl.load(x_ptr + place)
        place += 1
    tl.store(out_ptr + at, total)


@triton.jit
def behind_a_loop(x_ptr, out_ptr, n, inverse):
    at = tl.arange(0, 64)
    place = (at.to(tl.float32) * inverse).to(tl.int32)
    for _ in range(n):
        place = place + 1
    tl.store(out_ptr + at, tl.load(x_ptr + place))


@triton.jit
def beside_a_sum(x_ptr, out_ptr, n, inverse):
    at = tl.arange(0, 64)
    place = (at.to(tl.float32) * inverse).to(tl.int32)
    total = tl.zeros((64,), tl.float32)
    for k in range(n):
        total += tl.load(x_ptr + at + k)
        place = place + 1
    tl.store(out_ptr + place, total)


@triton.jit
def stored_as_a_number(x_ptr, out_ptr, n, inverse):
    at = tl.arange(0, 64)
    number = tl.zeros((64,), tl.int32)
    place = at
    for _ in range(n):
        number += (at.to(tl.float32) * inverse).to(tl.int32)
        place += 64
    tl.store(out_ptr + place, number.to(tl.float32))


@triton.jit
def in_a_branch(x_ptr, out_ptr, n, inverse):
    at = tl.arange(0, 64)
    if n > 4:  # noqa: SIM108 - a branch is what is asked about
        place = at
    else:
        place = (at.to(tl.float32) * inverse).to(tl.int32)
    tl.store(out_ptr + at, tl.load(x_ptr + place))


@triton.jit
def along_a_chain(x_ptr, out_ptr, n, inverse):
    at = tl.arange(0, 64)
    place = tl.zeros((64,), tl.int32)
    for _ in range(n):
        place = tl.load(x_ptr + place).to(tl.int32)
    half = (place.to(tl.float32) * inverse).to(tl.int32)
    tl.store(out_ptr + at, tl.load(x_ptr + half))


@triton.jit
def by_division(x_ptr, out_ptr, n, inverse):
    at = tl.program_id(0) * 64 + tl.arange(0, 64)
    x = tl.load(x_ptr + at // 7, mask=at < n, other=0.0)
    tl.store(out_ptr + at, x * inverse * at.to(tl.float32), mask=at < n)


@triton.jit
def by_coordinates(x_ptr, out_ptr, n, inverse):
    at = tl.program_id(0) * 64 + tl.arange(0, 64)
    where = tl.load(out_ptr + at, mask=at < n, other=0.0)
    x = tl.load(x_ptr + (where * inverse + at.to(tl.float32)).to(tl.int32), mask=at < n, other=0.0)
    tl.store(out_ptr + at, x, mask=at < n)


def told(kernel: triton.JITFunction) -> str | None:
    signature = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "inverse": "fp32"}
    source = ASTSource(fn=kernel, signature=signature, constexprs={})
    return places_by_floats(str(compiled(source, target=GPUTarget("cuda", 90, 32)).asm["ttir"]))


def line_of(kernel: triton.JITFunction, text: str) -> str:
    lines = kernel.src.splitlines()
    (place,) = [number for number, line in enumerate(lines) if text in line]
    return str(kernel.fn.__code__.co_firstlineno + 1 + place)


@pytest.mark.parametrize(
    "kernel",
    [by_a_reciprocal, in_a_loop, behind_a_loop, beside_a_sum, in_a_branch],
    ids=lambda kernel: kernel.__name__,
)
def test_a_place_by_fractions_is_told_with_its_line(kernel: triton.JITFunction) -> None:
    assert told(kernel) == line_of(kernel, ".to(tl.float32) * inverse")


@pytest.mark.parametrize(
    "kernel",
    [by_division, by_coordinates, along_a_chain, stored_as_a_number],
    ids=lambda kernel: kernel.__name__,
)
def test_whole_numbers_and_what_was_loaded_are_quiet(kernel: triton.JITFunction) -> None:
    assert told(kernel) is None
