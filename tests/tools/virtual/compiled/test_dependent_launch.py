"""Kernels that may begin before the one before them has ended: which of them wait first."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl
from triton.compiler import ASTSource

from kernelagent.tools.virtual.compiled.compiling import gpu_target
from kernelagent.tools.virtual.compiled.dependent_launch import waits_first


@triton.jit
def waits(x, out, n):
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    tl.extra.cuda.gdc_launch_dependents()
    tl.extra.cuda.gdc_wait()
    for _ in range(n):
        tl.store(out + at, tl.load(x + at, at < n), at < n)


@triton.jit
def waits_too_late(x, out, n):
    held = tl.load(x)
    tl.extra.cuda.gdc_wait()
    tl.store(out, held + n)


@triton.jit
def waits_in_some_programs(x, out, n):
    if tl.program_id(0) < n:
        tl.extra.cuda.gdc_wait()
    tl.store(out, tl.load(x))


@triton.jit
def ends_early_in_some_programs(x, out, n):
    if tl.program_id(0) > n:
        return
    tl.extra.cuda.gdc_wait()
    tl.store(out, tl.load(x))


@triton.jit
def waits_never(x, out, n):
    tl.store(out, tl.load(x))


@pytest.mark.parametrize(
    ("kernel", "first"),
    [
        (waits, True),
        (waits_too_late, False),
        (waits_in_some_programs, False),
        (ends_early_in_some_programs, False),
        (waits_never, False),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_every_program_must_wait_before_it_touches_memory(kernel, first):
    source = ASTSource(kernel, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {}, {})
    made = triton.compile(source, target=gpu_target("sm_90"), options={"launch_pdl": True})
    assert waits_first(made.asm["ttir"], made.asm["ptx"]) is first
