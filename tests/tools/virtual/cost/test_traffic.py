"""Synthetic access streams: what is counted is exact, so it is compared exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

from kernelagent.tools.virtual.arithmetic.elementwise import make
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.cost.traffic import TrafficCounter
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts
from kernelagent.tools.virtual.executor.launch import Launch, TensorArgument
from kernelagent.tools.virtual.operations.builder import RepairedBuilder

_MIB = 1 << 20
_BASE = 1 << 32
ARGUMENTS = (("w", 1 << 14), ("b", 64), ("x", 256))


def tensor(name: str, address: int, elements: int, item_bytes: int = 4) -> TensorArgument:
    size = elements * item_bytes
    return TensorArgument(name, address, address, size, item_bytes, "float32", (elements,), (1,))


def launch_of(*tensors: TensorArgument, programs: int = 1, index: int = 0) -> Launch:
    return Launch(index, "kernel", 1, (programs, 1, 1), tensors, {}, {})


def lanes(address: int, count: int, stride: int = 4) -> np.ndarray:
    return np.uint64(address) + np.arange(count, dtype=np.uint64) * np.uint64(stride)


def one_program(counter: TrafficCounter, launch: Launch, *accesses: tuple) -> TrafficFacts:
    counter.launch_begins(launch)
    counter.program_begins((0, 0, 0))
    for kind, addresses in accesses:
        counter.access(kind, addresses, 4, addresses.size)
    counter.launch_ends(launch)
    return counter.result(launch)


def streaming(
    counter: TrafficCounter, size: int, share: float = 1.0, index: int = 0, base: int = _BASE
) -> TrafficFacts:
    """Programs that read 32 KiB each of one tensor; the first `share` of them run."""
    each = 32 << 10
    programs = size // each
    launch = launch_of(tensor("x", base, size // 4), programs=programs, index=index)
    counter.sampled_share = share
    counter.launch_begins(launch)
    for program in range(round(programs * share)):
        counter.program_begins((program, 0, 0))
        counter.access("load", lanes(base + program * each, each // 4), 4, each // 4)
    counter.launch_ends(launch)
    return counter.result(launch)


def test_contiguous_lanes_cost_what_they_ask_for():
    facts = one_program(
        TrafficCounter("sm_90"), launch_of(tensor("x", _BASE, 256)), ("load", lanes(_BASE, 256))
    )
    assert facts.requested_load_bytes == facts.load_sector_bytes == 1024
    assert facts.distinct_load_bytes == facts.dram_load_bytes == 1024
    assert facts.dram_store_bytes == 0


def test_lanes_far_apart_cost_a_sector_each():
    facts = one_program(
        TrafficCounter("sm_90"),
        launch_of(tensor("x", _BASE, 1 << 20)),
        ("load", lanes(_BASE, 64, stride=4096)),
    )
    assert facts.requested_load_bytes == 256
    assert facts.load_sector_bytes == facts.dram_load_bytes == 64 * 32


def test_a_column_at_a_time_pays_its_sectors_in_l2_and_its_bytes_in_dram():
    """Neighbouring columns share sectors: L2 sees them eight times, DRAM once."""
    columns, rows = 8, 512
    counter = TrafficCounter("sm_90")
    launch = launch_of(tensor("x", _BASE, rows * 8), programs=columns)
    counter.launch_begins(launch)
    for column in range(columns):
        counter.program_begins((column, 0, 0))
        counter.access("load", lanes(_BASE + 4 * column, rows, stride=32), 4, rows)
    counter.launch_ends(launch)
    facts = counter.result(launch)
    assert facts.load_sector_bytes == 8 * facts.requested_load_bytes
    assert facts.dram_load_bytes == facts.distinct_load_bytes == facts.requested_load_bytes


def test_lanes_that_read_one_address_share_a_sector():
    same = np.full(128, _BASE, dtype=np.uint64)
    launch = launch_of(tensor("x", _BASE, 1))
    assert one_program(TrafficCounter("sm_90"), launch, ("load", same)).load_sector_bytes == 32


def test_the_order_of_lanes_does_not_matter():
    addresses = lanes(_BASE, 1024)
    shuffled = np.random.default_rng(0).permutation(addresses)
    launch = launch_of(tensor("x", _BASE, 1024))
    straight = one_program(TrafficCounter("sm_90"), launch, ("load", addresses))
    assert one_program(TrafficCounter("sm_90"), launch, ("load", shuffled)) == straight


def test_masked_lanes_move_nothing_and_are_told():
    counter = TrafficCounter("sm_90")
    launch = launch_of(tensor("x", _BASE, 8))
    counter.launch_begins(launch)
    counter.program_begins((0, 0, 0))
    counter.access("load", lanes(_BASE, 8), 4, 32)
    counter.access("load", lanes(_BASE, 0), 4, 32)
    counter.launch_ends(launch)
    facts = counter.result(launch)
    assert (facts.lanes, facts.masked_lanes) == (64, 56)
    assert facts.requested_load_bytes == 32


def test_the_second_launch_finds_what_the_first_one_wrote():
    counter = TrafficCounter("sm_90")
    target = tensor("x", _BASE, 1024)
    one_program(counter, launch_of(target, index=0), ("store", lanes(_BASE, 1024)))
    second = one_program(counter, launch_of(target, index=1), ("load", lanes(_BASE, 1024)))
    assert second.dram_load_bytes == 0
    assert second.distinct_load_bytes == 4096


def test_a_cleared_counter_starts_cold():
    counter = TrafficCounter("sm_90")
    cold = streaming(counter, _MIB)
    assert streaming(counter, _MIB).dram_load_bytes == 0
    counter.clear()
    assert streaming(counter, _MIB) == cold


@pytest.mark.long
def test_what_is_larger_than_l2_comes_from_dram_again():
    counter = TrafficCounter("sm_80")
    size = 2 * ceilings_for("sm_80").l2_bytes
    streaming(counter, size)
    assert streaming(counter, size, index=1).dram_load_bytes == size


def test_atomics_count_writes_and_the_busiest_address():
    counter = TrafficCounter("sm_90")
    launch = launch_of(tensor("x", _BASE, 64), programs=10)
    counter.launch_begins(launch)
    for program in range(10):
        counter.program_begins((program, 0, 0))
        counter.access("atomic", np.full(32, _BASE, dtype=np.uint64), 4, 32)
        counter.access("atomic", lanes(_BASE + 4 + 4 * program, 1), 4, 1)
    counter.launch_ends(launch)
    facts = counter.result(launch)
    assert (facts.atomics, facts.hottest_atomics) == (20, 10)
    assert facts.requested_store_bytes == 10 * 33 * 4


def test_a_small_tensor_that_every_program_reads_is_served_by_l1():
    counter = TrafficCounter("sm_90")
    weight = tensor("weight", _BASE, 1024)
    launch = launch_of(weight, programs=1320)
    counter.launch_begins(launch)
    for program in range(1320):
        counter.program_begins((program, 0, 0))
        counter.access("load", lanes(_BASE, 1024), 4, 1024)
    counter.launch_ends(launch)
    facts = counter.result(launch)
    assert facts.load_sector_bytes == 1320 * 4096
    assert facts.l1_bytes == (1320 - 132) * 4096


def test_operations_are_counted_by_what_executes_them():
    counter = TrafficCounter("sm_90")
    launch = launch_of(tensor("x", _BASE, 1))
    counter.launch_begins(launch)
    counter.program_begins((0, 0, 0))
    for kind, count, dtype in (
        ("fp", 10, "fp32"),
        ("fp", 20, "bf16"),
        ("fp", 3, "fp64"),
        ("int", 7, "int32"),
        ("special", 5, "fp32"),
        ("dot", 1000, "fp8e4nv"),
        ("dot", 500, "tf32"),
        ("dot", 200, "uint8"),
    ):
        counter.operation(kind, count, dtype)
    counter.launch_ends(launch)
    facts = counter.result(launch)
    assert (facts.fp_operations, facts.fp64_operations, facts.int_operations) == (30, 3, 7)
    assert facts.special_operations == 5
    assert facts.dot_flops == {"fp8": 1000, "tf32": 500, "int8": 200}


def test_a_sample_of_a_stream_is_scaled_to_the_grid():
    whole = streaming(TrafficCounter("sm_90"), 16 * _MIB)
    part = streaming(TrafficCounter("sm_90"), 16 * _MIB, share=0.125)
    assert part.programs_run == whole.programs_run // 8
    assert part.requested_load_bytes == whole.requested_load_bytes
    assert part.dram_load_bytes == whole.dram_load_bytes == 16 * _MIB


def test_after_a_sample_the_next_launch_finds_the_whole_tensor():
    counter = TrafficCounter("sm_90")
    streaming(counter, 8 * _MIB, share=0.125)
    assert streaming(counter, 8 * _MIB, share=0.25, index=1).dram_load_bytes == 0
    assert streaming(counter, 8 * _MIB, share=1.0, index=2).dram_load_bytes == 0


def test_after_a_sample_of_a_huge_tensor_the_next_launch_finds_it_gone():
    counter = TrafficCounter("sm_90")
    size = 256 * _MIB
    streaming(counter, size, share=0.002)
    assert streaming(counter, size, share=0.002, index=1).dram_load_bytes == pytest.approx(size)


def shared_operand(size: int, share: float) -> TrafficFacts:
    """128 programs that all read the whole of one tensor and write nothing."""
    counter = TrafficCounter("sm_90", share)
    launch = launch_of(tensor("x", _BASE, size // 4), programs=128)
    counter.launch_begins(launch)
    for program in range(round(128 * share)):
        counter.program_begins((program, 0, 0))
        for start in range(0, size, _MIB):
            counter.access("load", lanes(_BASE + start, _MIB // 4), 4, _MIB // 4)
    counter.launch_ends(launch)
    return counter.result(launch)


def test_a_shared_operand_that_fits_misses_once_and_not_once_per_sample():
    assert shared_operand(4 * _MIB, share=1 / 16).dram_load_bytes == 4 * _MIB


def test_a_shared_operand_that_does_not_fit_is_swept_again_and_again():
    size = 64 * _MIB
    facts = shared_operand(size, share=1 / 64)
    assert facts.distinct_load_bytes == size
    assert facts.dram_load_bytes == pytest.approx(128 * size, rel=0.5)


def sweeping(size: int) -> TrafficFacts:
    """Program after program reads the next MiB, four times over; a sixteenth of them runs."""
    programs = 4 * size // _MIB
    counter = TrafficCounter("sm_90", 1 / 16)
    launch = launch_of(tensor("x", _BASE, size // 4), programs=programs)
    counter.launch_begins(launch)
    for program in range(programs // 16):
        counter.program_begins((program, 0, 0))
        counter.access("load", lanes(_BASE + program * _MIB, _MIB // 4), 4, _MIB // 4)
    counter.launch_ends(launch)
    return counter.result(launch)


def test_sweeps_that_a_sample_never_sees_repeated_are_charged_where_l2_is_too_small():
    assert sweeping(16 * _MIB).dram_load_bytes == 16 * _MIB
    large = sweeping(64 * _MIB)
    assert large.distinct_load_bytes == 64 * _MIB
    assert large.dram_load_bytes == 4 * 64 * _MIB


def test_results_belong_to_launches_that_ended():
    counter = TrafficCounter("sm_90")
    with pytest.raises(KeyError):
        counter.result(launch_of())
    with pytest.raises(RuntimeError, match="outside a launch"):
        counter.access("load", lanes(_BASE, 1), 4, 1)


def test_an_argument_is_named_as_read_often_where_that_makes_much_of_what_is_read_again():
    """A bias of a few bytes is read by each program as well, and costs nothing beside the weight."""
    weight, bias, once = (tensor(n, _BASE + at * _MIB, s) for at, (n, s) in enumerate(ARGUMENTS))
    counter = TrafficCounter("sm_90")
    launch = launch_of(weight, bias, once, programs=16)
    counter.launch_begins(launch)
    for program in range(16):
        counter.program_begins((program, 0, 0))
        for argument in (weight, bias):
            (each,) = argument.shape
            counter.access("load", lanes(argument.address, each), 4, each)
        counter.access("load", lanes(once.address + 64 * program, 16), 4, 16)
    counter.launch_ends(launch)
    assert counter.result(launch).argument_reads == {"w": 16.0}


def test_a_view_of_one_element_hides_no_traffic():
    """A kernel may go on to the end of the storage behind a view, and the whole is taken as its size."""
    size = 32 * _MIB
    whole = tensor("x", _BASE, size // 4)
    view = replace(whole, shape=(1,))

    def read_by(argument: TensorArgument) -> TrafficFacts:
        counter = TrafficCounter("sm_90", sampled_share=0.25)
        launch = launch_of(argument, programs=4)
        counter.launch_begins(launch)
        counter.program_begins((0, 0, 0))
        counter.access("load", lanes(_BASE, size // 16), 4, size // 16)
        counter.launch_ends(launch)
        return counter.result(launch)

    assert read_by(view) == read_by(whole)
    assert read_by(view).l1_bytes == 0


def test_a_number_that_is_one_for_the_program_is_computed_by_each_of_its_threads():
    builder = RepairedBuilder()
    builder.threads = 128
    counted: list[tuple[str, int]] = []
    builder.count = lambda kind, number, _: counted.append((kind, number))
    for size in (1, 64, 256):
        x = make(np.ones(size, np.float32), tl.float32)
        builder.binary_op(x, x, np.add)
        builder.unary_op(x, np.exp)
    one = make(np.ones(1, np.int32), tl.int32)
    builder.binary_op(one, one, np.add)
    issued = [("fp", 128), ("special", 128), ("fp", 128), ("special", 128)]
    assert counted == [*issued, ("fp", 256), ("special", 256), ("int", 1)]
