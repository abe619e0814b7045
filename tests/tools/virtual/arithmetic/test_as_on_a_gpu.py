"""Arithmetic and places in which a GPU differs from numpy and from a CPU, as the compiled code has them."""

from __future__ import annotations

import gc
import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from kernelagent.tools.virtual.arithmetic.orders import ORDER
from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda
from kernelagent.tools.virtual.device.storages.host_tensors import HOST_TENSORS
from kernelagent.tools.virtual.executor.launch import MemoryFault
from kernelagent.tools.virtual.races.races import RaceChecker


@triton.jit
def remainder(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o_ptr + at, tl.load(x_ptr + at) % tl.load(y_ptr + at))


def test_a_remainder_is_what_is_left_of_a_rounded_quotient(interpret):
    x, y = torch.tensor([7.5, -7.5, 1e9, 3.0]), torch.tensor([2.0, 2.0, 0.3, math.inf])
    out = torch.empty(4)
    interpret(remainder, (1,), x, y, out, 4)
    quotient = torch.trunc(x / y).double()
    expected = (x.double() - quotient * y.double()).float()
    assert out[:3].tolist() == expected[:3].tolist()
    assert out[:2].tolist() == [1.5, -1.5]
    assert float(out[2]) != float(torch.fmod(x[2], y[2]))
    assert float(out[3]) == 3.0


@triton.jit
def largest_of_rows(x_ptr, o_ptr, N: tl.constexpr, LEFT: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * N + tl.arange(0, N))
    high = tl.argmax(x, 0, tie_break_left=LEFT)
    low = tl.argmin(-x, 0, tie_break_left=LEFT)
    tl.store(o_ptr + row * 2, high)
    tl.store(o_ptr + row * 2 + 1, low)


@pytest.mark.parametrize(("left", "places"), [(True, [1, 1, 2, 2]), (False, [3, 3, 2, 2])])
def test_where_any_of_equals_may_be_taken_it_is_not_the_first(interpret, left, places):
    x = torch.tensor([[0.0, 5.0, 1.0, 5.0], [0.0, 1.0, 2.0, -1.0]])
    out = torch.empty(2, 2, dtype=torch.int32)
    interpret(largest_of_rows, (2,), x, out, 4, left)
    assert out.flatten().tolist() == places


def test_the_place_beside_nan_is_the_one_that_the_comparisons_leave(interpret):
    nan = float("nan")
    x = torch.tensor([[nan, nan, nan, nan], [nan, 1.0, 2.0, -1.0], [0.0, 5.0, 1.0, 2.0]])
    out = torch.full((3, 2), -1, dtype=torch.int32)
    interpret(largest_of_rows, (3,), x, out, 4, True)
    # No comparison with NaN holds, so that the other side of each is taken.
    assert out[0].tolist() == [3, 3]
    assert out[1].tolist() == [2, 2]
    assert out[2].tolist() == [1, 1]


@triton.jit
def narrowed(x_ptr, o_ptr, u_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(o_ptr + at, x.to(tl.int8))
    tl.store(u_ptr + at, x.to(tl.uint8))


def test_bytes_are_cut_out_of_the_nearest_number_of_16_bits(interpret):
    x = torch.tensor([100.0, 300.0, 40_000.0, -5.0])
    signed, unsigned = torch.zeros(4, dtype=torch.int8), torch.zeros(4, dtype=torch.uint8)
    interpret(narrowed, (1,), x, signed, unsigned, 4)
    assert signed.tolist() == [100, 300 - 256, -1, -5]
    assert unsigned.tolist() == [100, 300 - 256, 40_000 % 256, 0]


@triton.jit
def roots(x_ptr, s_ptr, r_ptr, f_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(s_ptr + at, tl.sqrt(x))
    tl.store(r_ptr + at, tl.rsqrt(x))
    tl.store(f_ptr + at, tl.floor(-x))


def test_roots_and_floors_take_what_is_below_the_normal_numbers_for_zero(interpret):
    x = torch.tensor([4.0, 1e-40])
    root, reciprocal, floor = torch.empty(2), torch.empty(2), torch.empty(2)
    interpret(roots, (1,), x, root, reciprocal, floor, 2)
    assert root.tolist() == [2.0, 0.0]
    assert reciprocal.tolist() == [0.5, math.inf]
    assert floor.tolist() == [-4.0, 0.0]


@triton.jit
def bins(x_ptr, o_ptr, n, N: tl.constexpr, BINS: tl.constexpr, MASKED: tl.constexpr):
    at = tl.arange(0, N)
    if MASKED:
        counts = tl.histogram(tl.load(x_ptr + at), BINS, mask=at < n)
    else:
        counts = tl.histogram(tl.load(x_ptr + at), BINS)
    tl.store(o_ptr + tl.arange(0, BINS), counts)


def test_numbers_without_a_bin_are_refused_unless_a_mask_leaves_them_out(interpret):
    x, out = torch.tensor([0, 1, 1, 9], dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    interpret(bins, (1,), x, out, 3, 4, 4, True)
    assert out.tolist() == [1, 2, 0, 0]
    with pytest.raises(MemoryFault, match="from 0 to 9 and 4 bins"):
        interpret(bins, (1,), x, out, 3, 4, 4, False)


@triton.jit
def shifted(x_ptr, by_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, by = tl.load(x_ptr + at), tl.load(by_ptr + at)
    tl.store(o_ptr + at, x << by)
    tl.store(o_ptr + N + at, x >> by)
    tl.store(o_ptr + 2 * N + at, x.to(tl.uint32, bitcast=True) >> by)


def test_shifts_by_the_width_or_more_give_bits_that_nobody_can_know(interpret):
    x = torch.full((16,), 3, dtype=torch.int32)
    by = torch.tensor([1] * 8 + [32, 33, -1, 100] * 2, dtype=torch.int32)
    outs = [torch.zeros(3, 16, dtype=torch.int32) for _ in range(2)]
    for out in outs:
        interpret(shifted, (1,), x, by, out, 16)
    assert outs[0][:, :8].tolist() == [[6] * 8, [1] * 8, [1] * 8]
    assert torch.equal(outs[0][:, :8], outs[1][:, :8])
    assert (outs[0][:, 8:] != outs[1][:, 8:]).all()


@triton.jit
def ieee(x_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(o_ptr + at, libdevice.remainder(x, tl.full((N,), 2.0, tl.float32)))


def test_the_remainder_of_libdevice_is_that_of_the_nearest_multiple(interpret):
    x = torch.tensor([0.5, 1.5, 1.0, 3.0, -1.5, 5.0, 7.25, -0.25])
    out = torch.empty(8)
    interpret(ieee, (1,), x, out, 8)
    assert out.tolist() == [math.remainder(value, 2.0) for value in x.tolist()]


@triton.jit
def last_loads(x_ptr, total_ptr, o_ptr, N: tl.constexpr):
    pid = tl.program_id(0)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + pid * N + tl.arange(0, N)), 0))
    if pid == tl.num_programs(0) - 1:
        tl.store(o_ptr, tl.load(total_ptr, volatile=True))


@triton.jit
def only_adds(x_ptr, total_ptr, o_ptr, N: tl.constexpr):
    pid = tl.program_id(0)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + pid * N + tl.arange(0, N)), 0))


@pytest.mark.parametrize(("kernel", "matters"), [(last_loads, True), (only_adds, False)])
def test_a_load_of_what_other_programs_add_to_makes_their_order_matter(interpret, kernel, matters):
    # Outside a candidate's text atomics have no line: none of them counts as one that others wait for.
    races = RaceChecker(frozenset({None}))
    interpret(kernel, (4,), torch.ones(64), torch.zeros(1), torch.zeros(1), 16, observers=(races,))
    assert races.order_matters is matters


def test_tensors_of_a_forward_are_told_apart_by_where_a_gpu_would_have_them():
    x = torch.ones(4)
    with pretending_cuda("sm_90"), HOST_TENSORS.watching():
        made = torch.zeros(4)
        places = {
            "made without device": made,
            "computed from it": made[:2] + 1,
            "by a string": torch.ones(2, device="cpu"),
            "back": x.cpu(),
        }
        assert {name: tensor.is_cuda for name, tensor in places.items()} == dict.fromkeys(
            places, False
        )
        there = {
            "given": x,
            "beside it": torch.zeros(4, device=x.device),
            "alike": torch.empty_like(x),
            "moved": made.to(x.device),
            "moved by cuda": made.cuda(),
            "by the type": made.type_as(x),
            "a number of the host in it": x * made.sum(),
        }
        assert {name: tensor.is_cuda for name, tensor in there.items()} == dict.fromkeys(
            there, True
        )
        assert x.cuda() is x
        assert made.cuda() is not made
        with pytest.raises(RuntimeError, match="same device"):
            torch.cat([x, made])
    with pretending_cuda("sm_90"):
        assert torch.zeros(4).is_cuda, "outside a forward nothing is noted"


def test_the_usual_stream_is_the_usual_stream_and_no_other():
    with pretending_cuda("sm_90"):
        usual, another = torch.cuda.current_stream(), torch.cuda.Stream()
        assert usual == torch.cuda.current_stream() == torch.cuda.default_stream()
        assert hash(usual) == hash(torch.cuda.current_stream())
        assert usual != another
        assert another == another
        assert another.cuda_stream != torch.cuda.Stream().cuda_stream


class _WithTables(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("scale", torch.ones(4))
        self.table = torch.arange(4)


def test_of_a_module_that_goes_to_the_gpu_plain_attributes_stay_on_the_host():
    with pretending_cuda("sm_90"), HOST_TENSORS.watching():
        module = _WithTables()
        with torch._C.DisableTorchFunction():
            HOST_TENSORS.placed(module)
        places = [module.weight.is_cuda, module.scale.is_cuda, module.table.is_cuda]
    assert places == [True, True, False]


class _WithGpuTables(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("scale", torch.ones(4), persistent=False)
        self.tied = self.weight
        self.on_host = torch.arange(4)
        self.on_gpu = torch.zeros(4, device="cuda")
        self.several = {"a": [torch.ones(2, device="cuda")]}


def test_tensors_of_the_gpu_in_plain_attributes_are_known_by_name():
    with pretending_cuda("sm_90"), HOST_TENSORS.watching():
        module = torch.nn.Sequential(_WithGpuTables())
        with torch._C.DisableTorchFunction():
            HOST_TENSORS.placed(module)
            left = HOST_TENSORS.left_on_the_gpu(module)
    assert left == ["0.on_gpu", "0.several"]


@pytest.mark.parametrize("product", [torch.matmul, torch.mm, lambda a, b: a @ b])
def test_matrix_products_of_integers_exist_on_the_host_alone(product):
    whole = torch.ones(4, 4, dtype=torch.int64)
    with pretending_cuda("sm_90"), HOST_TENSORS.watching():
        assert product(whole.float(), whole.float()).sum() == 64
        assert product(whole.cpu(), whole.cpu()).sum() == 64
        with pytest.raises(NotImplementedError, match="on a GPU"):
            product(whole, whole)


@pytest.mark.parametrize(
    "sum_of_products",
    [
        torch.dot,
        torch.vdot,
        torch.inner,
        lambda a, b: torch.nn.functional.conv1d(a[None, None], b[None, None]),
        lambda a, b: torch.nn.functional.avg_pool1d((a * b)[None, None], 4) * 4,
    ],
)
def test_sums_of_products_of_integers_exist_on_the_host_alone(sum_of_products):
    whole = torch.ones(4, dtype=torch.int64)
    with pretending_cuda("sm_90"), HOST_TENSORS.watching():
        assert sum_of_products(whole.float(), whole.float()).item() == 4
        with pytest.raises(NotImplementedError, match="on a GPU"):
            sum_of_products(whole, whole)


@pytest.mark.parametrize(
    "used",
    [
        lambda: torch.cuda.device(1),
        lambda: torch.cuda.set_device(1),
        lambda: torch.zeros(1, device="cuda:1"),
        lambda: torch.ones(1).to(torch.device("cuda", 1)),
    ],
)
def test_there_is_one_gpu_and_no_second(used):
    with pretending_cuda("sm_90"), pytest.raises(RuntimeError, match="invalid device ordinal"):
        used()


def test_the_one_gpu_has_many_names():
    with pretending_cuda("sm_90"):
        for name in ("cuda", "cuda:0", torch.device("cuda"), 0):
            with torch.cuda.device(name):
                assert torch.zeros(1, device=name).is_cuda


COPIES = {
    "to the host": (lambda x: x.cpu(), ["cpu"]),
    "to the host by name": (lambda x: x.to("cpu"), ["to"]),
    "and back": (lambda x: torch.zeros(4).to(x.device), ["to"]),
    "from a list": (lambda x: torch.tensor([1.0], device=x.device), ["tensor"]),
    "from a list by a method": (lambda x: x.new_tensor([1.0]), ["new_tensor"]),
    "into a tensor": (lambda x: x.copy_(torch.zeros(4)), ["copy_"]),
    "into elements": (lambda x: x.__setitem__(slice(0, 2), torch.zeros(2)), ["__setitem__"]),
    "from numpy": (lambda x: torch.from_numpy(np.zeros(4)).to(x.device), ["to"]),
    "to where it is": (lambda x: x.to(x.device), []),
    "to another type": (lambda x: x.to(torch.float64), []),
    "on the host alone": (lambda x: torch.tensor([1.0, 2.0]).sum(), []),
    "on the device alone": (lambda x: torch.zeros_like(x).copy_(x), []),
}


@pytest.mark.parametrize("what", COPIES)
def test_copies_between_the_host_and_the_gpu_are_noted(what):
    x, (copied, by) = torch.ones(4), COPIES[what]
    with pretending_cuda("sm_90"), HOST_TENSORS.watching():
        copied(x)
    assert HOST_TENSORS.copied == by


@pytest.mark.parametrize("read", [lambda x: x.numpy(), np.asarray, np.from_dlpack])
def test_numpy_reads_tensors_of_the_host_alone(read):
    x = torch.ones(4)
    with pretending_cuda("sm_90"), HOST_TENSORS.watching():
        with pytest.raises(TypeError, match="can't convert cuda"):
            read(x)
        assert read(x.cpu()).sum() == 4.0


@pytest.mark.long
def test_memory_that_is_used_again_lies_where_its_new_tensor_says():
    x = torch.ones(4)
    with pretending_cuda("sm_90"), HOST_TENSORS.watching():
        for _ in range(2000):
            made = torch.zeros(64)
            assert not made.is_cuda
            del made
            again = torch.zeros(64, device=x.device)
            assert again.is_cuda
            del again
    gc.collect()


@triton.jit
def remainder_of_a_square(x_ptr, p_ptr, o_ptr, s_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(o_ptr + tl.arange(0, N), x * x - tl.load(p_ptr + tl.arange(0, N)))
    tl.store(s_ptr, tl.sum(x, 0))


def test_rounded_otherwise_products_go_into_sums_unrounded_and_neighbours_are_added_first(
    interpret, interpreter
):
    x = torch.tensor([1 + 2.0**-12, 3.0, 1e8, -1e8])
    out, total = torch.empty(4), torch.empty(1)
    seen = []
    for otherwise in (False, True):
        interpreter.builder.fuses, ORDER.name = otherwise, "neighbours" if otherwise else None
        interpret(remainder_of_a_square, (1,), x, x * x, out, total, 4)
        seen.append((float(out[0]), float(total)))
    interpreter.builder.fuses, ORDER.name = False, None
    assert seen[0] == (0.0, 0.0)
    assert seen[1] == (2.0**-24, pytest.approx(4.0, abs=0.01))


@triton.jit
def reshaped(x_ptr, o_ptr, t_ptr, REORDER: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)[None, :])
    tl.store(o_ptr + tl.arange(0, 8), tl.reshape(x, (8,), can_reorder=REORDER))
    tl.store(t_ptr, tl.sum(x))


def test_a_reshape_that_may_reorder_does_and_sums_of_all_elements_are_what_they_were(interpret):
    x, out, total = torch.arange(8.0), torch.empty(8), torch.empty(1)
    interpret(reshaped, (1,), x, out, total, False)
    assert out.tolist() == x.tolist()
    interpret(reshaped, (1,), x, out, total, True)
    assert out.tolist() != x.tolist()
    assert sorted(out.tolist()) == x.tolist()
    assert float(total) == 28.0


@triton.jit
def zeros_and_nan(x_ptr, o_ptr, n_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    z = tl.abs(x) * 0.0
    # Not `-z`, which is 0 - z, and so no negative zero, before Triton 3.8.
    negative = z * -1.0
    tl.store(o_ptr + 0 * N + at, tl.maximum(z, negative))
    tl.store(o_ptr + 1 * N + at, tl.maximum(negative, z))
    tl.store(o_ptr + 2 * N + at, tl.minimum(z, negative))
    tl.store(o_ptr + 3 * N + at, tl.minimum(negative, z))
    tl.store(n_ptr + at, (z / z).to(tl.int32, bitcast=True))


def test_zeros_and_what_is_no_number_have_a_gpus_signs(interpret):
    out, bits = torch.empty(4, 8), torch.empty(8, dtype=torch.int32)
    interpret(zeros_and_nan, (1,), torch.randn(8), out, bits, 8)
    assert torch.signbit(out).tolist() == [[False] * 8] * 2 + [[True] * 8] * 2
    assert bits.tolist() == [0x7FFFFFFF] * 8


@triton.jit
def adds_floats(x_ptr, o_ptr, APART: tl.constexpr):
    at = tl.program_id(0) * 8 + tl.arange(0, 8)
    to = at if APART else tl.arange(0, 8)
    tl.atomic_add(o_ptr + to, tl.load(x_ptr + at))


@pytest.mark.parametrize(("apart", "several"), [(False, True), (True, False)])
def test_the_checker_knows_whether_several_programs_add_to_one_place(interpret, apart, several):
    races = RaceChecker()
    interpret(adds_floats, (4,), torch.randn(32), torch.zeros(32), apart, observers=(races,))
    assert races.updated_by_several is several


@triton.jit
def zeroes_and_counts(x_ptr, o_ptr, t_ptr, N: tl.constexpr, MIXED: tl.constexpr):
    at = tl.arange(0, N)
    if tl.program_id(0) == 0:
        tl.atomic_and((o_ptr if MIXED else t_ptr) + at, tl.zeros((N,), tl.int32))
    tl.atomic_add(o_ptr + tl.load(x_ptr + at), 1)


@pytest.mark.parametrize("mixed", [True, False])
def test_atomics_of_two_kinds_on_the_same_places_make_the_order_matter(
    interpreter, interpret, mixed
):
    x = torch.arange(8, dtype=torch.int32)
    out, other = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    interpreter.builder.updates = {}
    interpret(zeroes_and_counts, (4,), x, out, other, 8, mixed)
    assert interpreter.builder.mixes_updates is mixed


@triton.jit
def updates_what_others_stored(x_ptr, o_ptr, N: tl.constexpr, WAITS: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o_ptr + at, tl.load(x_ptr + at))
    if WAITS:
        tl.debug_barrier()
    old = tl.atomic_add(o_ptr + (at ^ 1), 0.0)
    if WAITS:
        tl.debug_barrier()
    tl.store(o_ptr + at, old)


def test_an_atomic_on_what_another_lane_stored_needs_a_barrier_between(
    interpreter, interpret, monkeypatch
):
    monkeypatch.setattr(interpreter.builder.memory.own, "watched", True)
    x, out = torch.randn(8), torch.zeros(8)
    interpret(updates_what_others_stored, (1,), x, out, 8, True, observers=(RaceChecker(),))
    with pytest.raises(MemoryFault, match="other threads of the same program"):
        interpret(updates_what_others_stored, (1,), x, out, 8, False, observers=(RaceChecker(),))
