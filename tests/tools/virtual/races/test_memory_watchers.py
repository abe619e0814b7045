"""What the bounds and race checkers refuse, what they say, and what they let pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual.executor.launch import Launch, MemoryFault, TensorArgument
from kernelagent.tools.virtual.races.bounds import BoundsChecker
from kernelagent.tools.virtual.races.races import RaceChecker


@triton.jit
def copy(x_ptr, o_ptr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + at, tl.load(x_ptr + at))


@triton.jit
def copy_masked(x_ptr, o_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    mask = at < n
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


def _fault(interpret, checker, kernel, grid, *arguments):
    with pytest.raises(MemoryFault) as raised:
        interpret(kernel, grid, *arguments, observers=(checker,))
    return raised.value


def test_a_store_past_the_end_names_program_lanes_and_element(interpret):
    x, out = torch.zeros(1024), torch.zeros(1000)
    fault = _fault(interpret, BoundsChecker(), copy, (8,), x, out, 128)
    assert fault.code == "out_of_bounds"
    for fact in ("store", "(7, 0, 0)", "24 of 128", "element 1000", "`o_ptr`", "[1000]"):
        assert fact in str(fault)


def test_a_load_before_the_beginning_is_caught(interpret):
    @triton.jit
    def shifted(x_ptr, o_ptr, B: tl.constexpr):
        at = tl.arange(0, B)
        tl.store(o_ptr + at, tl.load(x_ptr + at - 1))

    fault = _fault(interpret, BoundsChecker(), shifted, (1,), torch.zeros(64), torch.zeros(64), 64)
    assert "load out of bounds" in str(fault)
    assert "element -1 relative to argument `x_ptr`" in str(fault)


def _access(*, item: int, with_integers: bool) -> MemoryFault:
    """A load at element `item` of a tensor with more than 2**32 elements, whose memory nobody needs."""

    def tensor(name: str, address: int, dtype: str, bytes_: int) -> TensorArgument:
        return TensorArgument(name, address, address, bytes_, 4, dtype, (bytes_ // 4,), (1,))

    base = 1 << 44
    tensors = [tensor("x_ptr", base, "float32", 5 << 32)]
    if with_integers:
        tensors.append(tensor("at_ptr", base << 1, "int32", 64))
    checker = BoundsChecker()
    checker.launch_begins(Launch(0, "k", 1, (1, 1, 1), tuple(tensors), {}, {}))
    with pytest.raises(MemoryFault) as raised:
        checker.access("load", np.array([base + 4 * item], np.uint64), 4, 1)
    return raised.value


def test_an_offset_that_has_overflowed_32_bits_is_named():
    fault = _access(item=-(1 << 31), with_integers=False)
    assert fault.detail["wrapped"] is True
    assert "an offset computed in 32 bits has overflowed" in str(fault)


@pytest.mark.parametrize(
    ("item", "with_integers"),
    [(5 << 30, False), (-(1 << 33), False), (-(1 << 31), True)],
    ids=["past the end", "further away", "perhaps loaded"],
)
def test_of_no_other_access_is_that_said(item, with_integers):
    fault = _access(item=item, with_integers=with_integers)
    assert "wrapped" not in fault.detail
    assert "32 bits" not in str(fault)


def test_a_wild_store_is_refused_before_it_happens(interpret):
    @triton.jit
    def wild(o_ptr, FAR: tl.constexpr):
        tl.store(o_ptr + FAR, 1.0)

    fault = _fault(interpret, BoundsChecker(), wild, (1,), torch.zeros(4), 1 << 40)
    assert fault.code == "out_of_bounds"


def test_masked_lanes_may_point_anywhere(interpret):
    x, out = torch.randn(1000), torch.zeros(1000)
    interpret(copy_masked, (8,), x, out, 1000, 128, observers=(BoundsChecker(),))
    assert torch.equal(out, x)


def test_a_view_may_reach_the_rest_of_its_storage(interpret):
    whole = torch.randn(2, 64)
    out = torch.zeros(128)
    interpret(copy, (1,), whole[0], out, 128, observers=(BoundsChecker(),))
    assert torch.equal(out, whole.reshape(-1))


@triton.jit
def sum_into(x_ptr, o_ptr, ATOMIC: tl.constexpr, B: tl.constexpr):
    part = tl.sum(tl.load(x_ptr + tl.program_id(0) * B + tl.arange(0, B)), axis=0)
    if ATOMIC:
        tl.atomic_add(o_ptr, part)
    else:
        tl.store(o_ptr, tl.load(o_ptr) + part)


def test_accumulating_without_atomics_is_a_race_that_names_both_programs(interpret):
    x, out = torch.ones(256), torch.zeros(1)
    fault = _fault(interpret, RaceChecker(), sum_into, (4,), x, out, False, 64)
    assert fault.code == "data_race"
    for fact in ("(1, 0, 0)", "(0, 0, 0)", "`o_ptr`"):
        assert fact in str(fault)


def test_accumulating_with_atomics_is_no_race(interpret):
    x, out = torch.ones(256), torch.zeros(1)
    interpret(sum_into, (4,), x, out, True, 64, observers=(RaceChecker(),))
    assert float(out) == 256


@triton.jit
def store_value(o_ptr, SAME: tl.constexpr, B: tl.constexpr):
    value = 1 if SAME else tl.program_id(0)
    tl.store(o_ptr + tl.arange(0, B), tl.full((B,), value, tl.int32))


def test_different_values_from_two_programs_in_one_place_are_a_race(interpret):
    fault = _fault(
        interpret, RaceChecker(), store_value, (2,), torch.zeros(8, dtype=torch.int32), False, 8
    )
    assert "overwrites 8 elements" in str(fault)


def test_equal_values_from_several_programs_are_no_race(interpret):
    out = torch.zeros(8, dtype=torch.int32)
    interpret(store_value, (4,), out, True, 8, observers=(RaceChecker(),))
    assert out.tolist() == [1] * 8


def test_overwriting_what_an_earlier_program_read_is_a_race(interpret):
    @triton.jit
    def shift_left(x_ptr, n, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        value = tl.load(x_ptr + at + 1, mask=at + 1 < n)
        tl.store(x_ptr + at, value, mask=at + 1 < n)

    fault = _fault(interpret, RaceChecker(), shift_left, (2,), torch.arange(32.0), 32, 16)
    assert "read or updated" in str(fault)


def test_zeroing_in_one_program_and_adding_in_all_is_a_race(interpret):
    @triton.jit
    def zero_then_add(o_ptr):
        if tl.program_id(0) == 0:
            tl.store(o_ptr, 0.0)
        tl.atomic_add(o_ptr, 1.0)

    fault = _fault(interpret, RaceChecker(), zero_then_add, (2,), torch.ones(1))
    assert "updates 1 elements" in str(fault)


def test_each_program_may_update_its_own_part_in_place(interpret):
    @triton.jit
    def twice(x_ptr, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(x_ptr + at, tl.load(x_ptr + at) * 2)
        tl.store(x_ptr + at, tl.load(x_ptr + at) * 2)

    x = torch.ones(64)
    interpret(twice, (4,), x, 16, observers=(RaceChecker(),))
    assert x.tolist() == [4.0] * 64


def test_programs_that_meet_at_a_ticket_may_read_each_other(interpret):
    @triton.jit
    def last_one_adds(x_ptr, part_ptr, ticket_ptr, o_ptr, P: tl.constexpr, B: tl.constexpr):
        pid = tl.program_id(0)
        part = tl.sum(tl.load(x_ptr + pid * B + tl.arange(0, B)), axis=0)
        tl.store(part_ptr + pid, part)
        if tl.atomic_add(ticket_ptr, 1) == P - 1:
            tl.store(o_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, P)), axis=0))

    ticket, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    arguments = (torch.ones(64), torch.zeros(4), ticket, out, 4, 16)
    interpret(last_one_adds, (4,), *arguments, observers=(RaceChecker(),))
    assert float(out) == 64


def test_a_lock_makes_accumulation_legal(interpret):
    @triton.jit
    def locked(lock_ptr, o_ptr):
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
        tl.store(o_ptr, tl.load(o_ptr) + 1.0)
        tl.atomic_xchg(lock_ptr, 0)

    lock, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    interpret(locked, (5,), lock, out, observers=(RaceChecker(),))
    assert float(out) == 5


@triton.jit
def store_through_table(table_ptr, B: tl.constexpr):
    which = tl.program_id(0)
    target = tl.load(table_ptr + which).to(tl.pointer_type(tl.float32))
    tl.store(target + tl.arange(0, B), tl.full((B,), 3.0, tl.float32))


def test_addresses_in_no_argument_are_refused_even_when_they_are_valid(interpret):
    hidden = torch.zeros(8)
    table = torch.tensor([hidden.data_ptr()])
    fault = _fault(interpret, BoundsChecker(), store_through_table, (1,), table, 8)
    assert fault.code == "out_of_bounds"
    assert hidden.tolist() == [0.0] * 8
