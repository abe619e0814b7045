"""Atomics of several lanes: exchanges of floats, and the order in which lanes reach one place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual.compiled.synchronising import dropped_atomics
from kernelagent.tools.virtual.executor.launch import Launch
from kernelagent.tools.virtual.interpreter.interleaving import Order, run_in_turns
from kernelagent.tools.virtual.interpreter.interpreter import Interpreter
from kernelagent.tools.virtual.races.lane_order import LaneOrder, meet
from tests.tools.virtual.arguments import tensor_argument


@triton.jit
def exchanges(x_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    old = tl.atomic_xchg(o_ptr + at, tl.load(x_ptr + at), mask=at > 0)
    tl.store(x_ptr + at, old, mask=at > 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
def test_numbers_of_32_and_64_bits_are_exchanged(interpret, dtype):
    x, out = torch.tensor([1, -2, 3, -4], dtype=dtype), torch.tensor([5, 6, -7, 8], dtype=dtype)
    interpret(exchanges, (1,), x, out, 4)
    assert out.tolist() == [5, -2, 3, -4]
    assert x.tolist() == [1, 6, -7, 8]


@triton.jit
def takes_tickets(total_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o_ptr + at, tl.atomic_add(total_ptr + at * 0, 1))


@triton.jit
def last_stays(total_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_xchg(total_ptr + at * 0, at)


@triton.jit
def first_swaps(total_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o_ptr + at, tl.atomic_cas(total_ptr + at * 0, tl.zeros_like(at), at + 1))


def in_order(kernel, order):
    total, out = torch.zeros(1, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    named = {"total_ptr": total, "o_ptr": out, "N": 8}
    tensors = tuple(tensor_argument(n, named[n]) for n in ("total_ptr", "o_ptr"))
    launch = Launch(0, kernel.fn.__name__, 1, (1, 1, 1), tensors, {}, {})
    interpreter = Interpreter()
    with interpreter.prepared_together(kernel, named, launch) as run:
        run_in_turns([(0, 0, 0)], run, interpreter.builder, order)
    return int(total), out.tolist()


def test_lanes_come_from_the_last_to_the_first_where_they_alone_are_turned():
    backwards = Order(1, lanes_only=True)
    assert in_order(takes_tickets, backwards) == (8, [7, 6, 5, 4, 3, 2, 1, 0])
    assert in_order(last_stays, backwards)[0] == 0
    assert in_order(first_swaps, backwards) == (8, [8, 8, 8, 8, 8, 8, 8, 0])


def test_lanes_come_in_drawn_orders_where_programs_take_turns():
    drawn = [tuple(in_order(takes_tickets, Order(secret))[1]) for secret in range(8)]
    assert all(sorted(tickets) == list(range(8)) for tickets in drawn)
    assert len(set(drawn)) > 4


def test_other_programs_may_come_between_lanes_of_one_atomic():
    pauses = []

    def update(where, values, use):
        return values[use]

    lanes = np.arange(64)
    order = LaneOrder(3, backwards=False)
    found = order.apply(update, lanes, lanes, np.ones(64, bool), lambda: pauses.append(1))
    assert found.tolist() == lanes.tolist()
    assert pauses


def test_lanes_meet_where_those_switched_on_go_to_one_place():
    where = np.array([0, 4, 4, 8], np.uint64)
    assert meet(where, np.ones(4, bool))
    assert not meet(where, np.array([True, True, False, True]))


@pytest.mark.parametrize(("kernel", "shown"), [(takes_tickets, True), (exchanges, False)])
def test_it_is_noted_where_the_order_of_lanes_can_show(interpreter, interpret, kernel, shown):
    interpreter.builder.memory.lanes_meet = False
    numbers = torch.zeros(8, dtype=torch.int32)
    interpret(kernel, (1,), numbers.clone(), numbers, 8)
    assert interpreter.builder.memory.lanes_meet is shown


def test_atomics_whose_value_nobody_looks_at_are_found_by_line():
    source = (
        "def kernel(p):\n    tl.atomic_add(p, 1)\n    x = tl.atomic_add(p, 2)\n    tl.store(p, x)\n"
    )
    assert dropped_atomics(source) == {2}
