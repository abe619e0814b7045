"""Numbers below the normal ones of fp32: zero where the compiled code has `.ftz`, and kept elsewhere."""

from __future__ import annotations

import re

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice

from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.executor.launch import Launch
from tests.tools.virtual.arguments import tensor_argument

TINY = 2.0**-130


@triton.jit
def of_tiny(x_ptr, o_ptr, N: tl.constexpr, WHAT: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    if WHAT == "sin":
        y = tl.sin(x)
    elif WHAT == "erf":
        y = tl.erf(x)
    elif WHAT == "log2":
        y = tl.log2(x)
    elif WHAT == "exp":
        y = tl.exp(tl.log(x))
    elif WHAT == "product":
        y = x * 1.5
    elif WHAT == "libdevice.ceil":
        y = libdevice.ceil(x)
    elif WHAT == "libdevice.tanh":
        y = libdevice.tanh(x)
    elif WHAT == "libdevice.log2":
        y = libdevice.log2(x)
    elif WHAT == "libdevice.fast_logf":
        y = libdevice.fast_logf(x)
    elif WHAT == "libdevice.div_rn":
        y = libdevice.div_rn(x * 4294967296.0, 8589934592.0)
    elif WHAT == "libdevice.exp":
        y = libdevice.exp(libdevice.log(x))
    tl.store(o_ptr + at, y)


def compiled(what: str) -> str:
    signature = {"x_ptr": "*fp32", "o_ptr": "*fp32", "N": "constexpr", "WHAT": "constexpr"}
    source = ASTSource(of_tiny, signature, {(2,): 32, (3,): what})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
    return str(made.asm["ptx"])


@pytest.mark.parametrize(
    ("what", "shown", "expected"),
    [
        ("sin", r"fma\.rn\.ftz\.f32", 0.0),
        ("erf", r"abs\.ftz\.f32", 0.0),
        ("log2", r"setp\.lt\.f32", -130.0),
        ("exp", r"ex2\.approx\.f32", TINY),
        ("product", r"mul\.f32", 1.5 * TINY),
        ("libdevice.ceil", r"cvt\.rpi\.ftz\.f32\.f32", 0.0),
        ("libdevice.tanh", r"abs\.ftz\.f32", 0.0),
        ("libdevice.log2", r"setp\.lt\.f32", -130.0),
        ("libdevice.fast_logf", r"lg2\.approx\.ftz\.f32", -torch.inf),
        ("libdevice.div_rn", r"div\.rn\.ftz\.f32", 0.0),
        ("libdevice.exp", r"ex2\.approx\.ftz\.f32[^;]*;\s*mul\.f32", TINY),
    ],
)
def test_tiny_numbers_are_zero_where_the_compiled_code_flushes_them(
    interpret, what, shown, expected
):
    assert re.search(shown, compiled(what))
    x, out = torch.full((32,), TINY), torch.empty(32)
    interpret(of_tiny, (1,), x, out, 32, what)
    assert float(out[0]) == pytest.approx(expected, rel=1e-4, abs=0.0)


@triton.jit
def add_to(x_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_add(o_ptr + at, tl.load(x_ptr + at))


@pytest.mark.parametrize("most_together", [0, 64])
def test_sums_of_fp32_in_memory_flush_what_they_take_and_give(most_together):
    interpreter = BatchedInterpreter(most_together)
    tiny, small = TINY, 2.0**-126

    def added(dtype: torch.dtype) -> list[float]:
        x = torch.tensor([tiny, 0.0, -1.5 * small, 1.0], dtype=dtype)
        out = torch.tensor([0.0, -tiny, small, tiny], dtype=dtype)
        named = {"x_ptr": x, "o_ptr": out, "N": 4}
        tensors = tuple(tensor_argument(name, named[name]) for name in ("x_ptr", "o_ptr"))
        interpreter.run(add_to, named, Launch(0, "add_to", 1, (1, 1, 1), tensors, {}, {}))
        return out.tolist()

    assert added(torch.float32) == [0.0, 0.0, 0.0, 1.0]
    assert added(torch.float64) == [tiny, -tiny, -0.5 * small, 1.0 + tiny]
    assert float(torch.tensor(tiny) * 0.5) == tiny / 2, "nothing is flushed afterwards"
