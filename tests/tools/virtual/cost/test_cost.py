from __future__ import annotations

from dataclasses import replace

import pytest

from kernelagent.domain.serialization import from_json, to_json
from kernelagent.tools.virtual.compiled.sass import MachineFacts
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.cost.cost import (
    LaunchEstimate,
    estimate_launch,
    spilled_bytes,
    spills_us,
    too_few_stages_us,
)
from kernelagent.tools.virtual.cost.eager import EagerRow
from kernelagent.tools.virtual.cost.forward_cost import (
    ForwardEstimate,
    estimate_eager,
    total,
    whole_forward,
)
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

H200 = ceilings_for("sm_90")
_MIB = 1 << 20

IDLE = TrafficFacts(
    programs=13200,
    programs_run=13200,
    requested_load_bytes=0,
    requested_store_bytes=0,
    lanes=0,
    masked_lanes=0,
    load_sector_bytes=0,
    store_sector_bytes=0,
    l1_bytes=0,
    distinct_load_bytes=0,
    distinct_store_bytes=0,
    dram_load_bytes=0,
    dram_store_bytes=0,
    atomics=0,
    hottest_atomics=0,
    fp_operations=0,
    fp64_operations=0,
    int_operations=0,
    special_operations=0,
)
GOOD = MachineFacts(
    target="sm_90",
    registers=32,
    spills=0,
    looped_spills=0,
    stack_bytes=0,
    shared_bytes=0,
    num_warps=4,
    resident_programs=16,
    occupancy=1.0,
    occupancy_limiter="threads",
    tensor_core="wgmma",
    load_widths={"128": 1},
)


def seconds_of(estimate: LaunchEstimate) -> float:
    return (estimate.us - H200.launch_us) * 1e-6


def test_a_streaming_launch_takes_its_dram_time_after_the_overhead():
    traffic = replace(IDLE, dram_load_bytes=10**9, load_sector_bytes=10**9)
    estimate = estimate_launch(traffic, GOOD, H200)
    assert estimate.bound == "dram"
    assert seconds_of(estimate) == pytest.approx(10**9 / (4.8e12 * 0.9))


@pytest.mark.parametrize(
    ("change", "bound"),
    [
        ({"dram_store_bytes": 10**9}, "dram"),
        ({"load_sector_bytes": 10**9}, "l2"),
        ({"store_sector_bytes": 10**9}, "l2"),
        ({"dot_flops": {"bf16": 10**12}}, "dot"),
        ({"fp_operations": 10**10}, "fp"),
        ({"fp64_operations": 10**10}, "fp"),
        ({"special_operations": 10**10}, "special"),
        ({"atomics": 10**9}, "atomics"),
        ({"hottest_atomics": 10**6}, "atomics"),
        ({}, "launch"),
        ({"programs": 10**7}, "launch"),
    ],
)
def test_the_busiest_resource_is_the_bound(change: dict, bound: str):
    estimate = estimate_launch(replace(IDLE, **change), GOOD, H200)
    assert estimate.bound == bound
    assert estimate.parts_us[bound] == max(estimate.parts_us.values())
    assert estimate.us >= estimate.parts_us[bound]


def test_loads_that_l1_serves_do_not_reach_l2():
    traffic = replace(IDLE, load_sector_bytes=10**9)
    less = replace(traffic, l1_bytes=9 * 10**8)
    ours, theirs = (estimate_launch(t, GOOD, H200).parts_us["l2"] for t in (less, traffic))
    assert ours == pytest.approx(theirs / 10)


def test_few_programs_cannot_use_the_whole_bandwidth():
    many = replace(IDLE, dram_load_bytes=10**9)
    few = replace(many, programs=10)
    assert estimate_launch(few, GOOD, H200).us > 5 * estimate_launch(many, GOOD, H200).us


def test_one_program_more_than_multiprocessors_takes_nearly_twice_the_time():
    full = replace(IDLE, programs=132, dot_flops={"bf16": 132 * 10**10})
    over = replace(IDLE, programs=133, dot_flops={"bf16": 133 * 10**10})
    ratio = seconds_of(estimate_launch(over, GOOD, H200)) / seconds_of(
        estimate_launch(full, GOOD, H200)
    )
    assert ratio == pytest.approx(2, rel=0.01)


def test_an_older_instruction_family_is_slower_and_none_is_far_slower():
    traffic = replace(IDLE, dot_flops={"bf16": 10**12})
    wgmma, older, none = (
        seconds_of(estimate_launch(traffic, replace(GOOD, tensor_core=family), H200))
        for family in ("wgmma", "mma.sync", None)
    )
    assert older == pytest.approx(wgmma / H200.older_tensor_core)
    assert none > 8 * wgmma


def test_exact_fp32_products_run_outside_the_tensor_cores():
    exact = replace(IDLE, dot_flops={"fp32": 10**12})
    rounded = replace(IDLE, dot_flops={"tf32": 10**12})
    assert estimate_launch(exact, GOOD, H200).us > 5 * estimate_launch(rounded, GOOD, H200).us


@pytest.mark.parametrize(("split", "products"), [("tf32x3", 3), ("bf16x3", 3), ("bf16x6", 6)])
def test_a_split_fp32_product_costs_its_products_on_tensor_cores(split: str, products: int):
    narrow = split.partition("x")[0]
    whole = estimate_launch(replace(IDLE, dot_flops={split: 10**12}), GOOD, H200)
    single = estimate_launch(replace(IDLE, dot_flops={narrow: 10**12}), GOOD, H200)
    assert whole.parts_us["dot"] == pytest.approx(products * single.parts_us["dot"])


def test_splitting_factors_takes_the_time_of_its_instructions_beside_the_products():
    products = replace(IDLE, dot_flops={"tf32x3": 10**12})
    times = [
        estimate_launch(replace(products, split_slots=slots), GOOD, H200).parts_us["dot"]
        for slots in (0, 10**10)
    ]
    assert times[1] - times[0] == pytest.approx(1e6 * 2 * 10**10 / H200.fp32_flops_per_s)


def test_a_split_fp32_product_is_cheaper_than_fused_multiply_adds():
    split = estimate_launch(replace(IDLE, dot_flops={"tf32x3": 10**12}), GOOD, H200)
    assert split.us < estimate_launch(replace(IDLE, dot_flops={"fp32": 10**12}), GOOD, H200).us


def test_fewer_stages_leave_loads_for_the_products_to_wait_for():
    busy = replace(IDLE, dot_flops={"bf16": 10**11}, load_sector_bytes=10**9, dram_load_bytes=10**9)
    alone = replace(GOOD, resident_programs=1)
    times = [estimate_launch(busy, alone, H200, stages).us for stages in (1, 2, 3)]
    assert times[0] > times[1] > times[2] == estimate_launch(busy, alone, H200).us


def test_spills_slow_the_arithmetic_between_them():
    busy = replace(IDLE, dot_flops={"bf16": 10**12})
    clean = replace(GOOD, instructions=1000)
    spilling = replace(clean, spills=400)
    assert estimate_launch(busy, spilling, H200).us > 2 * estimate_launch(busy, clean, H200).us


def test_spills_are_charged_to_l2():
    spilling = replace(GOOD, spills=1000)
    assert spilled_bytes(IDLE, spilling) == 1000 * 13200 * 4 * 32 * 4
    assert estimate_launch(IDLE, spilling, H200).bound == "l2"
    assert spilled_bytes(IDLE, GOOD) == spilled_bytes(IDLE, None) == 0


def test_spills_in_a_loop_count_once_a_turn():
    """One 16-byte load a thread stands in the code; eight times its bytes were requested."""
    traffic = replace(IDLE, requested_load_bytes=8 * 16 * 13200 * 128)
    straight = replace(GOOD, spills=10)
    looped = replace(GOOD, spills=10, looped_spills=10)
    assert spilled_bytes(traffic, looped) == 8 * spilled_bytes(traffic, straight)


def test_without_machine_code_a_launch_is_taken_to_have_compiled_well():
    traffic = replace(IDLE, dot_flops={"bf16": 10**12})
    assert estimate_launch(traffic, None, H200).us == estimate_launch(traffic, GOOD, H200).us


def test_a_torch_operation_and_a_launch_that_do_the_same_cost_the_device_the_same():
    size = 64 * _MIB
    row = EagerRow("add", 2 * size, size, 3 * size, fp_operations=size // 4)
    launch = replace(
        IDLE,
        load_sector_bytes=2 * size,
        store_sector_bytes=size,
        dram_load_bytes=2 * size,
        dram_store_bytes=size,
        fp_operations=size // 4,
    )
    eager = estimate_eager([row], H200)
    ours = whole_forward([estimate_launch(launch, GOOD, H200)], [], H200)
    # What is left of a difference is the host, where a launch is about as much work as an operation.
    assert eager.us == pytest.approx(ours.us, rel=1e-2)


def test_a_forward_is_bound_by_what_takes_most_of_its_time():
    parts = [
        LaunchEstimate(10.0, "dram", {"dram": 6.0}),
        LaunchEstimate(8.0, "launch", {"launch": 4.0}),
        LaunchEstimate(9.0, "launch", {"launch": 4.0}),
    ]
    forward = total(parts)
    assert (forward.us, forward.bound, len(forward.launches)) == (27.0, "launch", 3)


def test_a_forward_that_memory_binds_names_the_cache_or_the_unit_of_its_longest_launches():
    parts = [
        LaunchEstimate(500.0, "l2", {"l2": 500.0}),
        LaunchEstimate(300.0, "dram", {"dram": 300.0}),
        LaunchEstimate(60.0, "launch", {"launch": 60.0}),
    ]
    forward = whole_forward(parts, [], H200)
    assert (forward.bound, forward.resource) == ("dram", "l2")
    products = whole_forward([LaunchEstimate(500.0, "dot", {"dot": 500.0}), parts[1]], [], H200)
    assert products.resource == products.bound == "dot"


def test_the_blocks_of_a_cluster_share_the_work_of_their_program():
    # Of 16 programs of one block most multiprocessors have none.
    launch = replace(IDLE, programs=16, dot_flops={"bf16": 10**12}, most_bytes=10**8)
    alone = estimate_launch(launch, GOOD, H200)
    shared = estimate_launch(launch, replace(GOOD, num_ctas=16), H200)
    busy = 16 * 16 / (2 * H200.sms)
    assert shared.parts_us["dot"] == pytest.approx(
        alone.parts_us["dot"] * (16 / H200.sms) / busy, rel=1e-3
    )
    assert shared.parts_us["l2"] == pytest.approx(alone.parts_us["l2"] / 16, rel=1e-3)


@pytest.mark.parametrize("blocks", [2, 4])
def test_what_goes_through_shared_memory_takes_a_cluster_no_longer(blocks):
    busy = replace(IDLE, programs=528, shared_clocks=528 * 100_000, most_shared_clocks=100_000)
    alone = replace(GOOD, resident_programs=1)
    one, several = (
        estimate_launch(busy, replace(alone, num_ctas=number), H200).us for number in (1, blocks)
    )
    assert several < 1.1 * one


def test_no_launch_takes_no_time():
    assert total([]) == ForwardEstimate(0.0, "launch", ())


def test_an_estimate_says_so_and_survives_json():
    estimate = estimate_launch(replace(IDLE, dot_flops={"bf16": 5}), GOOD, H200)
    assert estimate.label == total([estimate]).label == "estimate"
    assert from_json(to_json(estimate), LaunchEstimate) == estimate
    assert from_json(to_json(IDLE), TrafficFacts) == IDLE
    assert from_json(to_json(GOOD), MachineFacts) == GOOD


def test_one_warp_that_walks_a_large_tensor_waits_for_memory_in_every_turn():
    """1 MiB in turns of 2 KiB: 512 trips to memory, each of 0.7 microseconds."""
    traffic = replace(IDLE, programs=1, requested_load_bytes=_MIB, load_sector_bytes=_MIB)
    alone = replace(GOOD, num_warps=1, load_widths={"128": 4})
    assert estimate_launch(traffic, alone, H200).us == pytest.approx(4 + 512 * 0.7)
    many = replace(traffic, programs=512)
    assert estimate_launch(many, alone, H200).us < 10


def test_loads_ahead_of_products_wait_less_and_so_do_bulk_copies():
    traffic = replace(
        IDLE, programs=1, requested_load_bytes=_MIB, dot_flops={"bf16": 10**6}, dram_load_bytes=1
    )
    alone = replace(GOOD, num_warps=4, load_widths={"128": 1})
    times = [estimate_launch(traffic, alone, H200, stages).parts_us["launch"] for stages in (1, 4)]
    assert times[0] == pytest.approx(4 * times[1])
    beside = replace(alone, bulk_copies=1)
    assert estimate_launch(traffic, beside, H200, 4).parts_us["launch"] == pytest.approx(times[1])
    copied = replace(traffic, copied_bytes=_MIB, loads=512, copies=512)
    turns = estimate_launch(copied, beside, H200, 4).parts_us["launch"]
    assert turns == pytest.approx(512 / 4 * H200.program_us)


def test_a_lone_warp_issues_on_one_scheduler_of_four():
    busy = replace(IDLE, programs=132, fp_operations=10**9)
    lone, four = (replace(GOOD, num_warps=warps, resident_programs=1) for warps in (1, 4))
    slow, fast = (estimate_launch(busy, machine, H200).parts_us["fp"] for machine in (lone, four))
    assert slow == pytest.approx(4 * fast)


def test_integer_arithmetic_costs_what_goes_beyond_addresses():
    addresses = replace(IDLE, lanes=10**6, int_operations=10**7)
    assert estimate_launch(addresses, GOOD, H200).us == estimate_launch(IDLE, GOOD, H200).us
    hashing = replace(addresses, int_operations=10**11)
    assert estimate_launch(hashing, GOOD, H200).bound == "fp"
    assert estimate_launch(hashing, GOOD, H200).us > 1000


@pytest.mark.parametrize("more", [{"rounds": 100_000}, {"exchanges": 100_000}, {"loads": 1000}])
def test_what_a_program_does_one_after_another_takes_time(more: dict):
    few, machine = replace(IDLE, programs=1), replace(GOOD, loops=1)
    usual = estimate_launch(few, machine, H200).us
    assert estimate_launch(replace(few, **more), machine, H200).us > 2 * usual


def test_rounds_that_the_compiler_removed_take_no_time():
    few = replace(IDLE, programs=1)
    assert estimate_launch(replace(few, rounds=100_000), GOOD, H200) == estimate_launch(
        few, GOOD, H200
    )


def test_what_spills_cost_is_the_difference_that_they_make_to_the_estimate():
    busy = replace(
        IDLE, fp_operations=10**10, requested_load_bytes=1 << 28, load_sector_bytes=1 << 28
    )
    spilled = replace(GOOD, spills=200, looped_spills=50, instructions=1000)
    without = estimate_launch(busy, replace(spilled, spills=0, looped_spills=0), H200, 3).us
    assert without + spills_us(busy, spilled, H200, 3) == estimate_launch(busy, spilled, H200, 3).us
    assert spills_us(busy, spilled, H200, 3) > 0
    assert spills_us(busy, GOOD, H200, 3) == 0


def test_what_stages_cost_falls_with_their_number_to_nothing():
    product = replace(
        IDLE, dot_flops={"bf16": 10**11}, load_sector_bytes=1 << 30, requested_load_bytes=1 << 30
    )
    alone = replace(GOOD, resident_programs=1)
    one, two, three, four = (too_few_stages_us(product, alone, H200, n) for n in (1, 2, 3, 4))
    assert one > two > 0
    assert three == four == 0
    assert too_few_stages_us(IDLE, alone, H200, 1) == 0
