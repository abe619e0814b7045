"""NaN that a kernel computes has the bits that a GPU gives it; NaN that it moves keeps its own."""

from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter

OWN, GPUS = 0x7FC12340, 0x7FFFFFFF


@triton.jit
def by_all_ways(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, x)
    tl.store(o_ptr + N + i, tl.where(i >= 0, x, 0.0))
    tl.store(o_ptr + 2 * N + i, x + 1.0)
    tl.store(o_ptr + 3 * N + i, tl.sqrt(x))
    tl.store(o_ptr + 4 * N + i, tl.fma(x, x, x))
    tl.store(o_ptr + 5 * N + i, tl.broadcast_to(tl.sum(x, 0), (N,)))
    tl.store(o_ptr + 6 * N + i, tl.broadcast_to(tl.max(x, 0), (N,)))
    tl.store(o_ptr + 7 * N + i, tl.cumsum(x, 0))
    tl.store(o_ptr + 8 * N + i, x * 2.0 - x)


@triton.jit
def of_nothing(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, (x - x) / (x - x))


@triton.jit
def of_a_constant(o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.full((N,), float("nan"), tl.float32) + i.to(tl.float32))


def bits(one: torch.Tensor) -> set[int]:
    return set(one.view(torch.int32).flatten().tolist())


def test_arithmetic_gives_the_one_nan_of_a_gpu_and_moving_keeps_what_there_is(interpret):
    x = torch.full((8,), OWN, dtype=torch.int32).view(torch.float32)
    out = torch.zeros(9, 8)
    interpret(by_all_ways, (1,), x, out, 8)
    assert [bits(row) for row in out] == [{OWN}, {OWN}, *[{GPUS}] * 7]


def test_nan_of_an_operation_without_one_is_stored_as_a_gpu_has_it(interpret, interpreter):
    interpreter.builder.foreign_nans = False
    out = torch.zeros(8)
    interpret(of_nothing, (1,), torch.ones(8), out, 8)
    assert bits(out) == {GPUS}


def test_a_constant_nan_does_not_outlast_a_sum(interpret):
    out = torch.zeros(8)
    interpret(of_a_constant, (1,), out, 8)
    assert bits(out) == {GPUS}
    assert all(math.isnan(value) for value in out.tolist())


@pytest.mark.parametrize("given", [1.0, math.nan])
def test_whether_there_are_foreign_nans_is_asked_anew_for_each_launch(given):
    interpreter = BatchedInterpreter()
    builder = interpreter.reference.builder
    builder.note_nans(builder.get_fp32(given))
    assert builder.foreign_nans is math.isnan(given)
    interpreter.fill_lanes(numbers=False)
    assert not builder.foreign_nans
