"""What names are bound to in a kernel, as the compiled code has it: numbers become tensors, whatever binds them."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.tools.virtual import test_batched as batched


@triton.jit
def annotated(x, out, n):
    row = tl.program_id(0)
    total: tl.float32 = 0.0
    for i in range(n):
        total += tl.load(x + row * n + i)
    tl.store(out + row, total)


@triton.jit
def in_a_tuple(x, out, n):
    row = tl.program_id(0)
    total, count = 0.0, 0
    for i in range(n):
        total += tl.load(x + row * n + i)
        count += 1
    tl.store(out + row, total * count / n)


@triton.jit
def by_a_walrus(x, out, n):
    row = tl.program_id(0)
    half = tl.load(x + row * n) * 0.0 + (least := -1) // 2
    tl.store(out + row, half + least * 10.0)


@triton.jit
def by_a_choice(x, out, n):
    row = tl.program_id(0)
    step = -1 if n > 1 else -3
    tl.store(out + row, (step // 2) * 1.0)


@triton.jit
def declared_constant(x, out, n):
    row = tl.program_id(0)
    step: tl.constexpr
    step = -1
    other: tl.constexpr = -3
    tl.store(out + row, (step // 2) * 10.0 + other // 2)


@triton.jit
def lowest(kind):
    kind_ = kind.value
    if kind_.is_floating():
        least: tl.constexpr = float("-inf")
        return least
    width: tl.constexpr = kind_.int_bitwidth
    return -1 * 2 ** (width - 1)


@triton.jit
def of_a_type(x, out, n):
    row = tl.program_id(0)
    tl.store(out + row, lowest(out.dtype.element_ty) + 0.0 * row + lowest(tl.int8))


@triton.jit
def of_a_tensor(x, out, n):
    tl.store(out, tl.load(x).value)


def results(interpret, kernel):
    """The rows, and what is stored for each: program by program and all programs together alike."""
    x = torch.full((4, 64), 0.1, dtype=torch.float16)
    x[:, 0] = 1000.0
    alone, together = torch.zeros(4), torch.zeros(4)
    interpret(kernel, (4,), x, alone, 64)
    batched.run(BatchedInterpreter(), kernel, (4,), {"x": x, "out": together, "n": 64})
    assert torch.equal(alone, together)
    return x, alone


@pytest.mark.parametrize("kernel", [annotated, in_a_tuple], ids=["annotated", "in a tuple"])
def test_a_sum_of_halves_that_begins_with_a_number_is_carried_in_32_bits(interpret, kernel):
    x, out = results(interpret, kernel)
    assert torch.equal(out, x.float().sum(1))
    assert not torch.equal(out, x.sum(1).float())


def test_a_number_that_a_walrus_binds_is_divided_as_compiled_code_divides(interpret):
    _, out = results(interpret, by_a_walrus)
    assert out.tolist() == [-10.0] * 4


def test_one_of_two_numbers_that_a_tensor_chooses_is_a_tensor(interpret):
    _, out = results(interpret, by_a_choice)
    assert out.tolist() == [0.0] * 4


def test_what_is_declared_a_constant_stays_one(interpret):
    _, out = results(interpret, declared_constant)
    assert out.tolist() == [-12.0] * 4


def test_the_value_of_a_type_that_is_handed_on_is_the_type(interpret):
    _, out = results(interpret, of_a_type)
    assert out.tolist() == [float("-inf")] * 4


def test_a_tensor_has_no_value_of_the_compilers(interpret):
    with pytest.raises(AttributeError, match="value"):
        results(interpret, of_a_tensor)
