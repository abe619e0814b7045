"""Casts, functions of libdevice, wide and repeated integers, and the work of a single program are all charged."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from benchmarks.counting import Counted, CountingLauncher
from benchmarks.libdevice_costs import functions, measured
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.cost.function_costs import instructions_of
from kernelagent.tools.virtual.interpreter.interpreter import Interpreter
from tests.tools.virtual.cost import work_kernels as kernels

H200 = ceilings_for("sm_90")
_TURNS = 20
interpreter = cache(Interpreter)
together = cache(BatchedInterpreter)
both_ways = pytest.mark.parametrize("runs", [interpreter, together])


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def counted(kernel, runs, block=256, programs=(2,), turns=_TURNS) -> Counted:
    launcher = CountingLauncher(runs(), "sm_90", None)
    x = torch.full((block,), 3.5)
    launcher(kernel, programs, x=x, out=torch.zeros(block), turns=turns, BLOCK=block)
    return launcher.counted[0]


@both_ways
def test_a_cast_between_floats_is_an_instruction_for_each_element(runs):
    assert counted(kernels.casts, runs).traffic.fp_operations == 2 * 2 * 256 * _TURNS


@both_ways
def test_a_function_of_libdevice_is_charged_as_its_instructions(runs):
    assert instructions_of("__nv_lgammaf") >= 20
    assert instructions_of("__nv_fabsf") == 1
    item = counted(kernels.gammas, runs).traffic
    assert item.fp_operations == instructions_of("__nv_lgammaf") * 2 * 256 * _TURNS


@both_ways
def test_sines_of_large_numbers_take_longer(runs):
    small = counted(kernels.sines, runs, turns=1).traffic.special_slots
    assert counted(kernels.sines, runs, turns=3).traffic.special_slots > 10 * small


@pytest.mark.long
@both_ways
def test_integers_in_fewer_lanes_than_threads_are_repeated_by_all_threads(runs):
    few = counted(kernels.repeated, runs, block=16).traffic.int_operations
    assert few == counted(kernels.repeated, runs, block=128).traffic.int_operations


@both_ways
def test_an_integer_of_64_bits_is_two_instructions(runs):
    item, less = (counted(kernels.wide, runs, turns=t).traffic.int_operations for t in (_TURNS, 0))
    assert item - less >= 2 * 2 * 256 * _TURNS


@pytest.mark.long
@both_ways
def test_the_arithmetic_of_one_program_among_idle_ones_is_waited_for(runs):
    """2048 lanes are 16 for each of 128 threads, so that a turn is 16 multiply-adds one after another."""
    turns = 1000
    item = counted(kernels.one_of_many, runs, block=2048, programs=(64,), turns=turns)
    assert item.traffic.most_work == turns * 2048
    assert item.estimate.us > H200.launch_us + 0.99e6 * 16 * turns / H200.clock_hz


@pytest.mark.long
def test_the_table_of_functions_is_what_their_machine_code_says(tmp_path):
    wanted = "__nv_lgammaf"
    function = next(one for one in functions() if one.symbol == wanted)
    found = sum(measured(function, tmp_path).values())
    assert found == pytest.approx(instructions_of(wanted), rel=0.5)
