"""What a kernel stores as Triton compiled it, beside what its text stores as Python."""

from __future__ import annotations

import json

import pytest

from tests.tools.virtual.virtual_process import run

pytestmark = pytest.mark.long

SOURCE = """
import torch, triton
import triton.language as tl


@triton.jit
def agrees(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.exp(x) + tl.sum(x, axis=0), mask=i < n)


@triton.jit
def differs(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    low = 1
    for _ in tl.static_range(1):
        low = low + 0
    else:
        low = 3
    tl.store(out_ptr + i, x * low, mask=i < n)


@triton.jit
def counts(slot_ptr, out_ptr):
    place = tl.atomic_add(slot_ptr, 1)
    tl.store(out_ptr + place, tl.program_id(0))


@triton.jit
def one_of_two(n):
    if n > 7:
        return 3
    return 4


@triton.jit
def stores_less(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if isinstance(one_of_two(n), int):
        tl.store(out_ptr + i, i)
"""
BODY = """
x, slot = torch.rand(1000), torch.zeros(1, dtype=torch.int32)
told = {}
def launch(kernel, grid, *args, **more):
    try:
        kernel[grid](*args, **more)
    except Exception as error:
        return str(error)
for _ in range(3):
    launch(candidate.agrees, (4,), x, torch.empty(1000), 1000, BLOCK=256)
    launch(candidate.counts, (8,), slot.zero_(), torch.empty(8, dtype=torch.int32))
told["differs"] = launch(candidate.differs, (4,), x, torch.empty(1000), 1000, BLOCK=256)
told["less"] = launch(candidate.stores_less, (1,), x, torch.zeros(16, dtype=torch.int32), 16, BLOCK=16)
rows = judge_asks(kind="log")["launches"]
told["compared"] = {r["kernel"]: r.get("compared") or r.get("not_compared") for r in rows}
show(told)
"""


def test_a_launch_whose_compiled_code_stores_something_else_fails_with_the_line_and_the_element(
    tmp_path,
):
    done = run(tmp_path, SOURCE, BODY)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr
    told = json.loads(lines[-1].removeprefix("RESULT "))
    assert told["compared"]["agrees"] is True
    # Which program comes first matters: both do them in the same order.
    assert told["compared"]["counts"] is True
    assert "`differs` at line" in told["differs"]
    assert "element [0] of `out_ptr`" in told["differs"]
    assert "stores nothing" in told["less"]


FACTORIES = """
import torch, triton
import triton.language as tl


def make_first():
    @triton.jit
    def part(x):
        return x * 0.25
    return part


def make_second():
    @triton.jit
    def part(x):
        return x * 0.75
    return part


first, second = make_first(), make_second()


@triton.jit
def sums(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, first(x) + second(x))
"""


def test_helpers_of_one_name_in_two_functions_are_two_to_the_compiler(tmp_path):
    body = """
x, out = torch.rand(64), torch.empty(64)
candidate.sums[(1,)](x, out, BLOCK=64)
show([torch.equal(out, x), judge_asks(kind="log")["launches"][0].get("compared")])
"""
    done = run(tmp_path, FACTORIES, body)
    assert "RESULT [true, true]" in done.stdout, done.stderr
