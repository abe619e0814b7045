"""What kernels' facts suggest: each hint where its fact is there, and none that the judge would refuse."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.domain.evaluation import DeviceFacts, Evaluation, HeadroomFacts, KernelFacts
from kernelagent.models.compiler.templates.matmul.pricing import precisions
from kernelagent.prompts.feedback import feedback_for
from kernelagent.prompts.hints import hints_for

DEVICE = DeviceFacts(
    "virtual",
    "H200, not present",
    "sm_90",
    "2.13.0",
    "3.9.0",
    multiprocessors=132,
    shared_bytes=232448,
)
UNKNOWN = replace(DEVICE, multiprocessors=None, shared_bytes=None)
NORM = KernelFacts("_norm", 1, share_of_device_time=0.9, bound="dram")
PRODUCT = replace(NORM, name="_product", bound="dot", tensor_core=None, product_types=("fp32",))


def one(kernel: KernelFacts, precision: str = "highest") -> Evaluation:
    return Evaluation("accepted", DEVICE, kernels=(kernel,), matmul_precision=precision)


def test_a_kernel_that_reads_three_times_is_told_what_one_pass_would_allow() -> None:
    kernel = replace(NORM, loaded_bytes=310, fewest_loaded_bytes=100, stored_bytes=31)
    assert hints_for(one(kernel)) == [
        "Kernel `_norm`: it reads 3.1× the fewest bytes; one pass over its data would allow 2.6×."
    ]


def test_what_is_read_often_is_named_by_its_argument() -> None:
    kernel = replace(
        NORM,
        loaded_bytes=1600,
        fewest_loaded_bytes=100,
        stored_bytes=31,
        argument_reads={"x": 1.0, "b": 15.9, "w": 16.0},
    )
    (hint,) = hints_for(one(kernel))
    assert "it reads 16.0× the fewest bytes (`w` 16×, `b` 16×); one pass" in hint


def test_programs_that_leave_multiprocessors_idle_come_before_any_other_hint() -> None:
    kernel = replace(NORM, grid=(16, 1, 1), spills=9, registers=255)
    (hint,) = hints_for(one(kernel))
    assert "16 programs on 132 multiprocessors leave 116 idle" in hint
    (other,) = hints_for(one(replace(kernel, grid=(132, 1, 1))))
    assert "idle" not in other


def test_a_kernel_that_is_not_bound_by_memory_is_not_told_to_read_less() -> None:
    kernel = replace(
        NORM, bound="launch", loaded_bytes=310, fewest_loaded_bytes=100, stored_bytes=31
    )
    assert hints_for(one(kernel)) == []


def test_what_is_read_again_from_caches_costs_nothing_where_memory_binds() -> None:
    kernel = replace(NORM, loaded_bytes=310, fewest_loaded_bytes=100, stored_bytes=31)
    assert hints_for(one(replace(kernel, dram_bytes=131))) == []
    assert "one pass over its data" in hints_for(one(replace(kernel, dram_bytes=341)))[0]


def test_products_whose_blocks_are_read_again_are_told_of_larger_ones() -> None:
    kernel = replace(PRODUCT, bound="l2", loaded_bytes=1600, fewest_loaded_bytes=100)
    (hint,) = hints_for(one(kernel))
    assert "it reads 16.0× the fewest bytes; larger blocks of its product" in hint


def test_smaller_blocks_are_advised_for_occupancy_only_where_memory_binds_and_nothing_is_multiplied() -> (
    None
):
    few = replace(NORM, occupancy=0.12, occupancy_limiter="registers")
    assert "smaller blocks would let more programs run side by side" in hints_for(one(few))[0]
    assert hints_for(one(replace(few, bound="l2"))) == []
    assert hints_for(one(replace(few, product_types=("fp16",)))) == []


def test_spills_of_a_product_are_told_first_of_what_reads_no_more() -> None:
    kernel = replace(NORM, spills=9, product_types=("fp16",))
    (hint,) = hints_for(one(kernel))
    assert "more warps, an epilogue that takes its block in parts, or smaller blocks" in hint


def test_a_light_kernel_gets_no_hint() -> None:
    assert hints_for(one(replace(NORM, spills=9, registers=255, share_of_device_time=0.1))) == []


def test_more_warps_are_no_advice_where_each_thread_would_have_half_the_registers() -> None:
    four, eight = (
        hints_for(one(replace(NORM, spills=9, num_warps=warps, product_types=("fp16",))))[0]
        for warps in (4, 8)
    )
    assert "; more warps, an epilogue that takes its block in parts, or smaller blocks" in four
    assert "; an epilogue that takes its block in parts or smaller blocks" in eight


def test_spills_come_before_anything_they_cause() -> None:
    kernel = replace(NORM, spills=9, registers=255, occupancy=0.1, occupancy_limiter="registers")
    (hint,) = hints_for(one(kernel))
    assert "9 spill instructions at 255 registers a thread" in hint


def test_narrow_loads_are_named_only_where_none_is_wider() -> None:
    assert "widest loads are 32 bits" in hints_for(one(replace(NORM, load_widths={"32": 4})))[0]
    assert hints_for(one(replace(NORM, load_widths={"32": 4, "128": 1}))) == []


def test_where_no_rows_begin_at_multiples_of_16_bytes_the_hint_says_so() -> None:
    narrow = replace(NORM, load_widths={"32": 4})
    assert hints_for(one(replace(narrow, rows_aligned=True))) == hints_for(one(narrow))
    (hint,) = hints_for(one(replace(narrow, rows_aligned=False)))
    assert "only loads which run flat over several rows can have 128" in hint


def test_programs_of_which_few_remain_for_the_last_round_are_named_where_arithmetic_binds() -> None:
    uneven = replace(NORM, bound="fp", grid=(140, 1, 1))
    (hint,) = hints_for(one(uneven))
    assert "8 of 132 multiprocessors get 2 of the 140 programs and the others 1" in hint
    assert "47% of their time is idle" in hint
    assert hints_for(one(replace(uneven, bound="dram"))) == []
    assert hints_for(one(replace(uneven, grid=(132 * 9 + 8, 1, 1)))) == []
    assert "spill" in hints_for(one(replace(uneven, spills=9)))[0]


def test_blocks_of_clusters_keep_multiprocessors_busy_as_programs_do() -> None:
    few = replace(NORM, grid=(16, 1, 1), bound="dot", share_of_device_time=0.9)
    assert "16 programs on 132 multiprocessors" in hints_for(one(few))[0]
    half = hints_for(one(replace(few, num_ctas=4)))[0]
    assert "64 blocks on 132 multiprocessors leave 68 idle" in half
    assert not any("idle" in hint for hint in hints_for(one(replace(few, num_ctas=16))))
    assert "16 programs of 4 blocks each" in feedback_for(one(replace(few, num_ctas=4)))


def test_spills_are_named_with_what_they_cost() -> None:
    (hint,) = hints_for(one(replace(NORM, spills=9, registers=255, spills_us=7.0)))
    assert "9 spill instructions at 255 registers a thread cost 7 µs by the estimate" in hint


def test_more_stages_are_advised_where_products_wait_and_shared_memory_holds_them() -> None:
    waiting = replace(
        PRODUCT,
        tensor_core="wgmma",
        num_stages=1,
        stages_us=40.0,
        estimate_us=100.0,
        shared_bytes=49152,
    )
    (hint,) = hints_for(one(waiting))
    assert "with num_stages=1 its products wait 40 of 100 µs for loads" in hint
    assert "num_stages=3 would load ahead" in hint
    assert hints_for(one(replace(waiting, shared_bytes=98304))) == []
    assert hints_for(one(replace(waiting, stages_us=4.0))) == []


@pytest.mark.parametrize(
    ("precision", "advised"),
    [("highest", "tf32x3"), ("high", "tf32"), ("medium", "tf32"), ("", "tf32x3")],
)
def test_products_come_onto_tensor_cores_as_the_precision_of_the_problem_permits(
    precision: str, advised: str
) -> None:
    (hint,) = hints_for(one(PRODUCT, precision))
    assert "without tensor cores" in hint
    assert re.findall(r'input_precision="(\w+)"', hint) == [advised]


def test_products_that_have_no_faster_form_get_no_advice() -> None:
    assert hints_for(one(replace(PRODUCT, tensor_core="wgmma"))) == []
    assert hints_for(one(replace(PRODUCT, product_types=("fp64",)))) == []


def test_many_launches_are_a_cost_only_where_launches_bind_and_something_is_left() -> None:
    facts = HeadroomFacts("default", 57600, {}, 4.0, "launch", 0.33, 0.67)
    several = replace(one(replace(NORM, launches=3)), headroom=facts)
    assert hints_for(several)[0].startswith("3 launches cost more than the work in them")
    assert hints_for(replace(several, headroom=replace(facts, left=0.1))) == []
    assert hints_for(replace(several, headroom=replace(facts, binds="dram"))) == []


ANY_KERNEL = st.builds(
    KernelFacts,
    name=st.just("k"),
    launches=st.integers(1, 9),
    share_of_device_time=st.none() | st.floats(0, 1),
    registers=st.none() | st.integers(0, 255),
    spills=st.none() | st.integers(0, 99),
    occupancy=st.none() | st.floats(0, 1),
    occupancy_limiter=st.just("registers"),
    loaded_bytes=st.none() | st.integers(0, 1 << 40),
    stored_bytes=st.none() | st.integers(0, 1 << 40),
    fewest_loaded_bytes=st.none() | st.integers(0, 1 << 40),
    bound=st.none() | st.sampled_from(["dram", "l2", "dot", "fp", "special", "launch"]),
    grid=st.none() | st.tuples(*[st.integers(1, 300)] * 3),
    waves=st.none() | st.floats(0, 1e6),
    num_stages=st.none() | st.integers(1, 7),
    shared_bytes=st.none() | st.integers(0, 232448),
    estimate_us=st.none() | st.floats(0.01, 1e6),
    spills_us=st.none() | st.floats(0, 1e6),
    num_ctas=st.none() | st.sampled_from([1, 2, 16]),
    spill_lines=st.lists(st.integers(1, 999), max_size=3).map(tuple),
    stages_us=st.none() | st.floats(0, 1e6),
    tensor_core=st.none() | st.just("mma.sync"),
    product_types=st.lists(st.sampled_from(["fp32", "bf16", "fp16", "tf32", "tf32x3", "fp64"])).map(
        tuple
    ),
    load_widths=st.dictionaries(st.sampled_from(["16", "32", "64", "128"]), st.integers(1, 9)),
)
REFUSED_OF_FP32 = re.compile(r"16-bit|bf16|bfloat16|float16|fp16|half", re.IGNORECASE)
COMPUTED_ELSEWHERE = re.compile(r"torch|cublas|cudnn|inductor", re.IGNORECASE)


@given(ANY_KERNEL)
def test_any_facts_can_be_put_into_words_and_unknown_ones_are_left_out(kernel: KernelFacts) -> None:
    message = feedback_for(one(kernel))
    assert "None" not in message
    assert len(hints_for(one(kernel))) <= 1
    assert "None" not in feedback_for(Evaluation("accepted", UNKNOWN, kernels=(kernel,)))


@given(
    st.lists(ANY_KERNEL, max_size=3),
    st.sampled_from(["highest", "high", "medium", ""]),
    st.sampled_from(["triton", "pure", "any", "coverage:0.5"]),
)
def test_no_hint_leads_to_what_the_judge_refuses(
    kernels: list[KernelFacts], precision: str, policy: str
) -> None:
    """Products only as the built-in policy forms them under that precision; never work outside the kernels."""
    evaluation = Evaluation(
        "accepted", DEVICE, kernels=tuple(kernels), matmul_precision=precision, policy=policy
    )
    permitted = precisions("torch.float32", precision or "highest")
    for hint in hints_for(evaluation):
        assert set(re.findall(r'input_precision="(\w+)"', hint)) <= set(permitted)
        assert not REFUSED_OF_FP32.search(hint)
        assert not COMPUTED_ELSEWHERE.search(hint)


def test_few_idle_multiprocessors_or_a_launch_that_binds_are_no_reason_to_split() -> None:
    for kernel in (
        replace(NORM, grid=(128, 1, 1)),
        replace(NORM, grid=(16, 1, 1), bound="launch"),
    ):
        assert not any("idle" in hint for hint in hints_for(one(kernel)))
