"""Who has seen which of others' updates, where several updated one place."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual.executor.launch import MemoryFault
from kernelagent.tools.virtual.races.races import RaceChecker

SEVERAL = 64


@triton.jit
def adds_then_draws(sum_ptr, ticket_ptr, out_ptr, LANES: tl.constexpr):
    at = tl.arange(0, LANES)
    tl.atomic_add(sum_ptr + at, 1, sem="relaxed")
    tl.debug_barrier()
    if tl.atomic_add(ticket_ptr, 1) == tl.num_programs(0) - 1:
        tl.debug_barrier()
        tl.store(out_ptr + at, tl.load(sum_ptr + at))


@triton.jit
def draws_then_adds(sum_ptr, ticket_ptr, out_ptr, LANES: tl.constexpr):
    at = tl.arange(0, LANES)
    ticket = tl.atomic_add(ticket_ptr, 1)
    tl.debug_barrier()
    tl.atomic_add(sum_ptr + at, 1, sem="relaxed")
    if ticket == tl.num_programs(0) - 1:
        tl.debug_barrier()
        tl.store(out_ptr + at, tl.load(sum_ptr + at))


@triton.jit
def last_waits_for_one(sum_ptr, flag_ptr, out_ptr, LANES: tl.constexpr, WHICH: tl.constexpr):
    at, program = tl.arange(0, LANES), tl.program_id(0)
    tl.atomic_add(sum_ptr + at, 1, sem="relaxed")
    tl.debug_barrier()
    if program == WHICH:
        tl.atomic_xchg(flag_ptr, 1)
    if program == tl.num_programs(0) - 1:
        while tl.atomic_add(flag_ptr, 0) == 0:
            pass
        tl.debug_barrier()
        tl.store(out_ptr + at, tl.load(sum_ptr + at))


@triton.jit
def each_waits_for_the_one_before(sum_ptr, flag_ptr, out_ptr, LANES: tl.constexpr):
    at, program = tl.arange(0, LANES), tl.program_id(0)
    if program > 0:
        while tl.atomic_add(flag_ptr + program - 1, 0) == 0:
            pass
    tl.debug_barrier()
    tl.atomic_add(sum_ptr + at, 1, sem="relaxed")
    tl.debug_barrier()
    if program == tl.num_programs(0) - 1:
        tl.store(out_ptr + at, tl.load(sum_ptr + at))
    tl.atomic_xchg(flag_ptr + program, 1)


def memory(lanes):
    return torch.zeros(lanes, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)


@pytest.mark.parametrize("lanes", [2, SEVERAL])
def test_the_last_to_draw_a_ticket_has_seen_what_came_before_tickets_alone(interpret, lanes):
    (total, ticket), out = memory(lanes), torch.zeros(lanes, dtype=torch.int32)
    interpret(adds_then_draws, (8,), total, ticket, out, lanes, observers=(RaceChecker(),))
    assert out.tolist() == [8] * lanes
    (total, ticket) = memory(lanes)
    with pytest.raises(MemoryFault, match="updated by atomics in the same launch"):
        interpret(draws_then_adds, (8,), total, ticket, out, lanes, observers=(RaceChecker(),))


@pytest.mark.parametrize("which", [0, 3])
def test_the_flag_of_one_program_says_nothing_of_the_others(interpret, which):
    (total, flag), out = memory(SEVERAL), torch.zeros(SEVERAL, dtype=torch.int32)
    with pytest.raises(MemoryFault, match="updated by atomics in the same launch"):
        interpret(
            last_waits_for_one, (8,), total, flag, out, SEVERAL, which, observers=(RaceChecker(),)
        )
    (total, flag) = memory(SEVERAL)
    interpret(last_waits_for_one, (2,), total, flag, out, SEVERAL, 0, observers=(RaceChecker(),))
    assert out.tolist() == [2] * SEVERAL


def test_who_meets_a_program_has_seen_what_that_one_had_seen(interpret):
    (total, flag), out = memory(SEVERAL), torch.zeros(SEVERAL, dtype=torch.int32)
    interpret(
        each_waits_for_the_one_before, (8,), total, flag, out, SEVERAL, observers=(RaceChecker(),)
    )
    assert out.tolist() == [8] * SEVERAL
