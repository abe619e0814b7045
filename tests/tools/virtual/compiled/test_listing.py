"""Each instruction stands beside the line of the candidate's that it comes from."""

from __future__ import annotations

import re

import pytest

from kernelagent.tools.virtual.compiled.compiling import Compiled, compile_kernel, gpu_target
from kernelagent.tools.virtual.compiled.listing import Form, instructions
from kernelagent.tools.virtual.executor.source import KernelSource

TEXT = """\
import triton
import triton.language as tl


@triton.jit
def k(x, y, out):
    at = tl.arange(0, 2048)
    a = tl.load(x + at)
    b = tl.load(y + at)
    tl.store(out + at, a * 2 + b)
"""
LINES = dict(enumerate(TEXT.splitlines(), start=1))


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    function = KernelSource(TEXT).load({}).function("k", 5)
    signature = dict.fromkeys(("x", "y", "out"), "*fp16")
    aligned = {(n,): [["tt.divisibility", 16]] for n in range(3)}
    return compile_kernel(function, signature, {}, aligned, {"num_warps": 4}, gpu_target("sm_90"))


@pytest.mark.parametrize("form", ["sass", "ptx"])
def test_loads_stand_beside_the_lines_that_load_and_stores_beside_those_that_store(
    compiled: Compiled, form: Form
) -> None:
    """Triton writes a load as several lines of assembly, with which LLVM counts the source's on."""
    listed = instructions(compiled, form)
    loads = [i for i in listed if re.search(r"\bLDG\b|ld\.global", i.text)]
    stores = [i for i in listed if re.search(r"\bSTG\b|st\.global", i.text)]
    assert {i.line for i in loads} == {8, 9}
    assert {i.line for i in stores} == {10}
    assert all("tl.load" in LINES[i.line or 0] for i in loads)
