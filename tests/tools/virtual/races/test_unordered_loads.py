"""Plain loads of what atomics of other programs change, and programs that begin in any order."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual.executor.launch import Launch, MemoryFault
from kernelagent.tools.virtual.interpreter import interleaving
from kernelagent.tools.virtual.interpreter.interleaving import AllWait, Order, run_in_turns
from kernelagent.tools.virtual.interpreter.interpreter import Interpreter
from kernelagent.tools.virtual.races.races import RaceChecker
from tests.tools.virtual.arguments import tensor_argument

LATE_OF = 100
NEW_ATOMICS = pytest.mark.skipif(not hasattr(tl, "atomic_poll"), reason="Triton has it since 3.9")


@triton.jit
def last_looks(sum_ptr, o_ptr, VOLATILE: tl.constexpr):
    if tl.program_id(0) < tl.num_programs(0) - 1:
        tl.atomic_add(sum_ptr, 1)
    else:
        tl.store(o_ptr, tl.load(sum_ptr, volatile=VOLATILE))


@triton.jit
def first_looks(sum_ptr, o_ptr):
    if tl.program_id(0) == 0:
        tl.store(o_ptr, tl.load(sum_ptr))
    else:
        tl.atomic_add(sum_ptr, 1)


@triton.jit
def last_of_all_looks(sum_ptr, ticket_ptr, o_ptr, ORDER: tl.constexpr):
    tl.atomic_add(sum_ptr, 1, sem="relaxed")
    if tl.atomic_add(ticket_ptr, 1, sem=ORDER) == tl.num_programs(0) - 1:
        tl.store(o_ptr, tl.load(sum_ptr))


@triton.jit
def swaps_its_guess(sum_ptr, o_ptr):
    seen = tl.load(sum_ptr)
    found = tl.atomic_cas(sum_ptr, seen, seen + 1)
    while found != seen:
        seen = found
        found = tl.atomic_cas(sum_ptr, seen, seen + 1)


@triton.jit
def waits_for_the_one_before(flag_ptr, o_ptr):
    pid = tl.program_id(0)
    if pid > 0:
        while tl.atomic_add(flag_ptr + pid - 1, 0) == 0:
            pass
    tl.atomic_xchg(flag_ptr + pid, 1)


def counter():
    return torch.zeros(1, dtype=torch.int32)


def test_a_plain_load_of_what_others_add_to_is_a_race_unless_it_is_volatile(interpret):
    total, out = counter(), counter()
    with pytest.raises(
        MemoryFault, match="reads 1 elements of `sum_ptr` that other programs updated by atomics"
    ):
        interpret(last_looks, (4,), total, out, False, observers=(RaceChecker(),))
    checker = RaceChecker()
    interpret(last_looks, (4,), total, out, True, observers=(checker,))
    assert checker.order_matters


def test_what_one_program_loads_plainly_no_atomic_of_another_may_change(interpret):
    with pytest.raises(
        MemoryFault, match=r"overwrites 1 elements of `sum_ptr` that program \(0, 0, 0\) read"
    ):
        interpret(first_looks, (4,), counter(), counter(), observers=(RaceChecker(),))


def test_a_ticket_that_acquires_and_releases_orders_plain_loads(interpret):
    out = counter()
    interpret(
        last_of_all_looks, (4,), counter(), counter(), out, "acq_rel", observers=(RaceChecker(),)
    )
    assert out.tolist() == [4]
    with pytest.raises(MemoryFault, match="updated by atomics"):
        interpret(
            last_of_all_looks,
            (4,),
            counter(),
            counter(),
            out,
            "relaxed",
            observers=(RaceChecker(),),
        )


def test_a_guess_that_a_compare_and_swap_checks_may_be_anything(interpret):
    total = counter()
    interpret(swaps_its_guess, (4,), total, counter(), observers=(RaceChecker(),))
    assert total.tolist() == [4]


def in_turns(kernel, count, order, **constants):
    first, out = torch.zeros(count, dtype=torch.int32), counter()
    names = [parameter.name for parameter in kernel.params]
    named = {names[0]: first, "o_ptr": out, **constants}
    tensors = tuple(tensor_argument(n, named[n]) for n in (names[0], "o_ptr"))
    launch = Launch(0, kernel.fn.__name__, 1, (count, 1, 1), tensors, {}, constants)
    interpreter = Interpreter()
    with interpreter.prepared_together(kernel, named, launch) as run:
        run_in_turns([(at, 0, 0) for at in range(count)], run, interpreter.builder, order)
    return int(out)


@pytest.mark.long
def test_the_last_program_of_many_comes_late_unless_programs_begin_in_a_drawn_order():
    usual = {in_turns(last_looks, LATE_OF, Order(n), VOLATILE=True) for n in range(4)}
    drawn = {
        in_turns(last_looks, LATE_OF, Order(n, scattered=True), VOLATILE=True) for n in range(8)
    }
    assert min(usual) >= 64
    assert min(drawn) < 64


def test_programs_that_all_wait_for_ones_that_have_not_begun_end_a_drawn_order(monkeypatch):
    monkeypatch.setattr(interleaving, "TOGETHER", 3)
    in_turns(waits_for_the_one_before, 3, Order(1, scattered=True))
    with pytest.raises(AllWait):
        in_turns(waits_for_the_one_before, 12, Order(2, scattered=True))


@triton.jit
def hands_on(flag_ptr, part_ptr, o_ptr, WAIT: tl.constexpr, GIVE: tl.constexpr, LOOK: tl.constexpr):
    pid = tl.program_id(0)
    if pid > 0:
        if LOOK:
            while tl.atomic_load(flag_ptr + pid - 1, sem=WAIT) != 1:
                pass
        else:
            tl.atomic_poll(flag_ptr + pid - 1, 1, sem=WAIT)
        tl.store(o_ptr + pid, tl.load(part_ptr + pid - 1))
    tl.store(part_ptr + pid, pid)
    tl.atomic_store(flag_ptr + pid, 1, sem=GIVE)


@triton.jit
def sets_a_flag_plainly(flag_ptr, o_ptr):
    pid = tl.program_id(0)
    if pid > 0:
        tl.atomic_poll(flag_ptr + pid - 1, 1)
    tl.store(flag_ptr + pid, 1)


@NEW_ATOMICS
@pytest.mark.parametrize("look", [False, True])
def test_an_atomic_load_meets_what_an_atomic_store_released(interpret, look):
    def run(wait, give):
        flag, part, out = (torch.zeros(4, dtype=torch.int32) for _ in range(3))
        interpret(hands_on, (4,), flag, part, out, wait, give, look, observers=(RaceChecker(),))
        return out.tolist()

    assert run("acquire", "release") == [0, 0, 1, 2]
    for orders in (("relaxed", "release"), ("acquire", "relaxed")):
        with pytest.raises(MemoryFault, match="stored in the same launch"):
            run(*orders)


@NEW_ATOMICS
def test_an_atomic_load_of_what_another_stored_plainly_is_a_race(interpret):
    flag, out = torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    with pytest.raises(MemoryFault, match="stored in the same launch"):
        interpret(sets_a_flag_plainly, (2,), flag, out, observers=(RaceChecker(),))
