"""What a GPU does otherwise than an interpreter that runs programs and lanes in turn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch.utils._python_dispatch import TorchDispatchMode

from kernelagent.tools.virtual.arithmetic.associativity import NotAssociative
from kernelagent.tools.virtual.compiled.memory_operations import Threads
from kernelagent.tools.virtual.device.fake_cuda import scramble
from kernelagent.tools.virtual.executor.launch import MemoryFault
from kernelagent.tools.virtual.executor.source import KernelSource, without_memory
from kernelagent.tools.virtual.executor.vocabulary import Refused
from kernelagent.tools.virtual.interpreter.hints import Hints, holds
from kernelagent.tools.virtual.races import own_stores
from kernelagent.tools.virtual.races.own_stores import OwnStores

LINE, SPREAD = 5, "a layout"


def addresses(*lanes):
    return np.array(lanes, dtype=np.uint64)


def everywhere(pointers):
    return np.ones(pointers.shape, dtype=bool)


@pytest.fixture
def own(monkeypatch):
    monkeypatch.setattr(own_stores, "line_now", lambda: LINE)
    stores = OwnStores()
    stores.watched = True
    stores.threads = Threads({(kind, LINE, (4,)): SPREAD for kind in ("load", "store", "atomic")})
    return stores


def test_a_thread_may_load_what_it_stored_itself(own):
    where = addresses(0, 4, 8, 12)
    own.stored(where, everywhere(where), 4)
    own.loaded(where, everywhere(where), 4)


def test_what_other_lanes_stored_may_be_loaded_behind_a_barrier_only(own):
    where = addresses(0, 4, 8, 12)
    own.stored(where, everywhere(where), 4)
    with pytest.raises(MemoryFault, match="4 lanes load what other threads") as raised:
        own.loaded(where[::-1], everywhere(where), 4)
    assert raised.value.code == "data_race"
    own.barrier()
    own.loaded(where[::-1], everywhere(where), 4)


@pytest.mark.parametrize(
    "spreads",
    [{("store", LINE, (4,)): SPREAD, ("load", LINE, (4,)): "other"}, {("store", LINE, (4,)): SPREAD}],
    ids=["in other threads", "in several threads"],
)  # fmt: skip
def test_the_same_lane_need_not_be_the_same_thread(own, spreads):
    own.threads = Threads(spreads)
    where = addresses(0, 4, 8, 12)
    own.stored(where, everywhere(where), 4)
    with pytest.raises(MemoryFault, match="4 lanes load what other threads"):
        own.loaded(where, everywhere(where), 4)


def test_one_number_is_stored_by_one_thread_and_loaded_by_all(own):
    own.threads = Threads({("store", LINE, ()): "", ("atomic", LINE, ()): ""})
    where = addresses(8)
    own.stored(where, everywhere(where), 4)
    own.updated(where, everywhere(where), 4)
    own.loaded(where, everywhere(where), 4)
    own.stored(where, everywhere(where), 4)
    with pytest.raises(MemoryFault, match="1 lanes"):
        own.loaded(where, everywhere(where), 4)


def test_an_atomic_whose_value_decides_nothing_is_no_barrier(own):
    own.non_synchronizing_atomics = frozenset({LINE})
    where = addresses(8)
    own.updated(where, everywhere(where), 4)
    with pytest.raises(MemoryFault, match="1 lanes"):
        own.loaded(where, everywhere(where), 4)


def test_neither_a_barrier_nor_an_atomic_keeps_the_blocks_of_a_cluster(own):
    own.threads = Threads(own.threads.layouts, barriers_for_all=False)
    where, flag = addresses(0, 4, 8, 12), addresses(64)
    own.stored(where, everywhere(where), 4)
    own.barrier()
    own.updated(flag, everywhere(flag), 4)
    own.loaded(where, everywhere(where), 4)
    with pytest.raises(MemoryFault, match="num_ctas=1"):
        own.loaded(where[::-1], everywhere(where), 4)


def test_a_wider_element_meets_what_narrower_ones_stored(own):
    where = addresses(0, 4, 8, 12)
    own.stored(where, everywhere(where), 4)
    wide = addresses(8)
    with pytest.raises(MemoryFault):
        own.loaded(wide, everywhere(wide), 8)
    beyond = addresses(16)
    own.loaded(beyond, everywhere(beyond), 8)


def block(*values):
    return np.array([values], dtype=np.int32)


class Offsets:
    """What `Hints` asks of a tensor."""

    dtype = tl.int32


@pytest.mark.parametrize(
    ("name", "number", "values", "right"),
    [
        ("multiple_of", 4, (4, 5, 6, 7), True),
        ("multiple_of", 4, (8, 4, 12, 0), True),
        ("multiple_of", 4, (5, 4, 7, 6), False),
        ("max_contiguous", 2, (4, 5, 8, 9), True),
        ("max_contiguous", 4, (4, 5, 8, 9), False),
        ("max_constancy", 2, (3, 3, 1, 1), True),
        ("max_constancy", 4, (3, 3, 1, 1), False),
    ],
)
def test_a_hint_is_held_against_the_values(name, number, values, right):
    assert holds(name, block(*values), number, 1) is right


def test_hints_are_looked_at_only_where_they_are_watched():
    hints = Hints()
    hints.look("multiple_of", Offsets, 4, block(1, 2))
    assert hints.false == {}


@triton.jit
def pair(a, b, c, d):
    return a * c, c * b + d


@triton.jit
def last_of_pair(a, b, c, d):
    return c, c * b + d


@triton.jit
def decided(a, b, c, d):
    return a * c, (c * b + d if True else d)


@triton.jit
def recurrence(a_ptr, b_ptr, o_ptr, N: tl.constexpr, STEP: tl.constexpr):
    at = tl.arange(0, N)
    _, y = tl.associative_scan((tl.load(a_ptr + at), tl.load(b_ptr + at)), 0, STEP)
    tl.store(o_ptr + at, y)


@pytest.mark.parametrize("step", [pair, decided])
def test_an_associative_combine_is_computed_with_and_without_a_decision(interpret, step):
    a, b, out = torch.rand(32), torch.randn(32), torch.zeros(32)
    interpret(recurrence, (1,), a, b, out, 32, step)
    wanted, carried = [], 0.0
    for factor, term in zip(a.tolist(), b.tolist(), strict=True):
        carried = factor * carried + term
        wanted.append(carried)
    assert out.tolist() == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_a_combine_that_is_right_in_one_order_only_is_refused(interpret):
    a, b, out = torch.linspace(0.5, 1.5, 32), torch.linspace(1.0, 2.0, 32), torch.zeros(32)
    with pytest.raises(NotAssociative, match="last_of_pair"):
        interpret(recurrence, (1,), a, b, out, 32, last_of_pair)


@triton.jit
def as_integers(x_ptr, o_ptr, q_ptr, zero):
    at = tl.arange(0, 4)
    tl.store(o_ptr + at, tl.load(x_ptr + at).to(tl.int32))
    tl.store(q_ptr + at, (at + 1) // zero)


def test_numbers_beyond_an_integer_and_division_by_zero_are_a_gpus(interpret):
    x = torch.tensor([1e12, -1e12, float("nan"), -2.7])
    out, quotient = torch.zeros(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    interpret(as_integers, (1,), x, out, quotient, 0)
    assert out.tolist() == [2**31 - 1, -(2**31), 0, -2]
    assert quotient.tolist() == [-1] * 4


@triton.jit
def product(a_ptr, b_ptr, o_ptr, K: tl.constexpr):
    i, k = tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 16 + i[None, :])
    tl.store(o_ptr + i[:, None] * 16 + i[None, :], tl.dot(a, b, out_dtype=tl.float16))


def test_an_accumulator_in_16_bits_is_rounded_after_each_16_products(interpret):
    a, b = torch.ones(16, 64, dtype=torch.float16), torch.zeros(64, 16, dtype=torch.float16)
    b[0], b[16:] = 2048.0, 1.0 / 16
    out = torch.zeros(16, 16, dtype=torch.float16)
    interpret(product, (1,), a, b, out, 64)
    assert out.unique().tolist() == [2048.0], "1 is half a step of 2048, and lost each time"


def test_a_function_of_constants_with_a_memory_is_refused():
    source = (
        "import triton\n\n\n@triton.constexpr_function\ndef again(seen=[]):\n"
        "    seen += [1]\n    return len(seen)\n\n\n@triton.jit\ndef kernel():\n    again()\n"
    )
    with pytest.raises(Refused, match="as a default"):
        KernelSource(source).load({}).function("kernel", 10)


def test_what_a_function_of_constants_leaves_in_its_arguments_is_seen():
    def grows(numbers):
        numbers += [1]
        return len(numbers)

    with pytest.raises(ValueError, match="changes a list"):
        without_memory(grows)([])
    assert without_memory(lambda numbers: numbers[0])((1, 2)) == 1


@pytest.fixture
def fresh_memory_is_filled():
    known = torch.are_deterministic_algorithms_enabled()
    torch._C._set_deterministic_algorithms(True, warn_only=True)  # noqa: SLF001 - use_deterministic_algorithms would import Inductor
    yield
    torch._C._set_deterministic_algorithms(known, warn_only=True)  # noqa: SLF001 - the same


@pytest.mark.usefixtures("fresh_memory_is_filled")
def test_fresh_integers_hold_no_value_that_could_be_known():
    fresh = [torch.empty(8, dtype=torch.int32) for _ in range(2)]
    flags = torch.empty(64, dtype=torch.bool)
    for tensor in (*fresh, flags):
        scramble(tensor)
    assert fresh[0].unique().numel() > 1
    assert torch.equal(*fresh), (
        "within a process: what changes of itself looks like somebody's result"
    )
    assert set(flags.view(torch.uint8).tolist()) == {0, 1}


@pytest.mark.usefixtures("fresh_memory_is_filled")
def test_what_fills_fresh_integers_is_no_operation_of_the_candidates():
    class Operations(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise AssertionError(func)

    tensor = torch.empty(1000, dtype=torch.int64)
    with Operations():
        scramble(tensor)
    assert len(tensor.unique()) > 900
