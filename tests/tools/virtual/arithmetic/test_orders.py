"""Sums and running sums in the order of the compiled kernel's own threads, and in others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernelagent.tools.virtual.arithmetic.orders import ORDER
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.compiled.thread_layouts import Bits, Layouts, layouts_of
from kernelagent.tools.virtual.executor.launch import Launch
from tests.tools.virtual.arguments import tensor_argument


@triton.jit
def whole(x_ptr, o_ptr, N: tl.constexpr, M: tl.constexpr):
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N * M))))


@triton.jit
def rows(x_ptr, o_ptr, N: tl.constexpr, M: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :])
    tl.store(o_ptr + tl.arange(0, N), tl.sum(x, 1))


@triton.jit
def columns(x_ptr, o_ptr, N: tl.constexpr, M: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :])
    tl.store(o_ptr + tl.arange(0, M), tl.sum(x, 0))


@triton.jit
def running(x_ptr, o_ptr, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N * M)
    tl.store(o_ptr + at, tl.cumsum(tl.load(x_ptr + at), 0))


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def running_by_hand(x_ptr, o_ptr, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N * M)
    tl.store(o_ptr + at, tl.associative_scan(tl.load(x_ptr + at), 0, plus))


@triton.jit
def composed(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def recurrence(x_ptr, o_ptr, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N * M)
    x = tl.load(x_ptr + at)
    _, y = tl.associative_scan((x * 0 + 0.5, x), 0, composed)
    tl.store(o_ptr + at, y)


def compiled(kernel: Any, n: int, m: int, warps: int) -> Layouts:
    signature = {"x_ptr": "*fp32", "o_ptr": "*fp32", "N": "constexpr", "M": "constexpr"}
    aligned = {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}
    source = ASTSource(kernel, signature, {(2,): n, (3,): m}, aligned)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    return layouts_of(made.asm["ttgir"])


@pytest.fixture
def ordered() -> Iterator[Callable[..., torch.Tensor]]:
    interpreter = BatchedInterpreter()

    def run(
        order: str | None, kernel: Any, x: torch.Tensor, n: int, m: int, layouts: Layouts
    ) -> torch.Tensor:
        interpreter.round_as(order, layouts, fuses=False)
        out = torch.full((n * m,), torch.nan)
        named = {"x_ptr": x, "o_ptr": out, "N": n, "M": m}
        tensors = tuple(tensor_argument(name, named[name]) for name in ("x_ptr", "o_ptr"))
        interpreter.run(kernel, named, Launch(0, "kernel", 1, (1, 1, 1), tensors, {}, {}))
        return out

    yield run
    interpreter.round_as(None, Layouts(), fuses=False)


@pytest.mark.parametrize(
    ("kernel", "n", "m", "warps", "shape", "axis", "bits"),
    [
        # As the PTX has it: v4 loads, repeats of the warp's 128 elements, then shfl.bfly 16 to 1.
        (whole, 1, 512, 1, (512,), None, (0, 1, 7, 8, 6, 5, 4, 3, 2)),
        (whole, 1, 1024, 4, (1024,), None, (0, 1, 9, 6, 5, 4, 3, 2, 8, 7)),
        (rows, 16, 64, 4, (16, 64), 1, (0, 1, 5, 4, 3, 2)),
        (columns, 64, 64, 4, (64, 64), 0, (3, 4, 5, 0, 2, 1)),
    ],
)
def test_the_order_of_a_sum_is_that_of_the_compiled_threads(kernel, n, m, warps, shape, axis, bits):
    found = compiled(kernel, n, m, warps).bits(shape, axis)
    assert found is not None
    assert found.in_order == bits


def test_a_sum_in_the_order_of_threads_has_the_bits_of_that_order(ordered):
    x = torch.randn(512, generator=torch.Generator().manual_seed(0))
    lanes = x.numpy().reshape(4, 32, 2, 2)
    own = (lanes[..., 0, 0] + lanes[..., 0, 1]) + (lanes[..., 1, 0] + lanes[..., 1, 1])
    held = (own[0] + own[1]) + (own[2] + own[3])
    while held.size > 1:
        held = held[: held.size // 2] + held[held.size // 2 :]
    layouts = compiled(whole, 1, 512, 1)
    sums = {
        order: float(ordered(order, whole, x, 1, 512, layouts)[0])
        for order in (None, "neighbours", "threads", "1", "2")
    }
    assert sums["threads"] == float(held[0])
    assert len(set(sums.values())) >= 3
    assert all(abs(value - float(x.double().sum())) < 1e-4 for value in sums.values())


@pytest.mark.parametrize("kernel", [running, running_by_hand])
def test_a_running_sum_in_the_order_of_threads_has_the_bits_of_that_order(ordered, kernel):
    x = torch.randn(1024, generator=torch.Generator().manual_seed(1))
    layouts = compiled(kernel, 1, 1024, 4)
    own = np.add.accumulate(x.numpy().reshape(8, 32, 4), axis=2)
    expected, carry = [], np.float32(0)
    for warp in own:
        through, step = warp[:, -1].copy(), 1
        while step < 32:
            through[step:] = through[step:] + through[:-step].copy()
            step *= 2
        through = through + carry
        before = np.concatenate([[carry], through[:-1]])
        expected.append(np.concatenate([warp[:, :-1] + before[:, None], through[:, None]], axis=1))
        carry = through[-1]
    out = ordered("threads", kernel, x, 1, 1024, layouts)
    assert out.tolist() == np.concatenate(expected).reshape(-1).tolist()
    assert out.tolist() != ordered(None, kernel, x, 1, 1024, layouts).tolist()


@pytest.mark.parametrize("order", ["neighbours", "threads", "1", "2", "3", "4"])
@pytest.mark.parametrize("kernel", [whole, rows, columns, running, running_by_hand, recurrence])
def test_whatever_the_order_the_result_is_the_same_but_for_rounding(ordered, kernel, order):
    x = torch.randn(32 * 64, generator=torch.Generator().manual_seed(2))
    usual = ordered(None, kernel, x, 32, 64, Layouts())
    other = ordered(order, kernel, x, 32, 64, Layouts())
    torch.testing.assert_close(other, usual, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_bits_of_a_slice_and_of_a_product_are_known():
    text = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
    %9 = "tt.reduce"(%8) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      tt.reduce.return %c : f32
    }) : (tensor<64x64xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
    %10 = "tt.reduce"(%9) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      tt.reduce.return %c : f32
    }) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #blocked}>>) -> f32
"""
    layouts = layouts_of(text)
    assert layouts.bits((64, 64), 1) == Bits((0, 3, 4, 5), (1, 2), ())
    assert layouts.bits((64,), 0) == Bits((3, 4, 5), (0,), (1, 2))
    assert layouts.bits((64,), None) == layouts.bits((64,), 0)
    assert layouts.bits((128,), 0) is None
    assert ORDER.name is None
