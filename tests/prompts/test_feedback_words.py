"""The words of fixed evaluations, kept as files: a change of wording is seen and decided.

`evaluations/NAME.json` holds the verdict, `evaluations/NAME.txt` what the model is told about it.
`python tests/prompts/test_feedback_words.py` writes the words anew after a change that is meant.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.domain.evaluation import (
    DeviceFacts,
    Estimate,
    Evaluation,
    HeadroomFacts,
    KernelFacts,
    Reason,
)
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.serialization import from_json
from kernelagent.prompts import render_prompt
from kernelagent.prompts.feedback import feedback_for
from kernelagent.prompts.hints import hints_for
from kernelagent.tools.judge.verify.deaths import out_of_time
from tests.evaluations import FACTS, history_of

KEPT = Path(__file__).parent / "evaluations"
NAMES = sorted(path.stem for path in KEPT.glob("*.json"))
DEVICE = DeviceFacts("virtual", "H200, not present", "sm_90", "2.13.0", "3.9.0")
NORM = KernelFacts("_norm", 1, share_of_device_time=0.9, bound="dram")


def evaluation(name: str) -> Evaluation:
    return from_json((KEPT / f"{name}.json").read_bytes(), Evaluation)


def one(kernel: KernelFacts) -> Evaluation:
    return Evaluation("accepted", DEVICE, kernels=(kernel,))


@pytest.mark.parametrize("name", NAMES)
def test_the_words_are_those_that_were_agreed(name: str) -> None:
    assert feedback_for(evaluation(name)) == (KEPT / f"{name}.txt").read_text(encoding="utf-8")


def test_there_are_evaluations_to_put_into_words() -> None:
    assert len(NAMES) >= 8


def test_products_without_tensor_cores_are_never_sent_to_plain_tf32() -> None:
    """Under precision `highest` the judge refuses it; three products of it are accurate enough."""
    (hint,) = hints_for(one(replace(NORM, bound="dot", tensor_core=None)))
    assert 'input_precision="tf32x3"' in hint
    assert '"tf32"' not in hint


def test_a_limit_of_this_machine_is_told_without_flags_that_no_writer_can_pass() -> None:
    late = out_of_time("in the forward", 120.0).reason
    words = feedback_for(Evaluation("error", DEVICE, reason=late))
    assert words == (
        "Could not be judged (unverifiable): time limit reached: judging this candidate took longer than "
        "the 120 s allowed on this device (in the forward)\n"
        "Nothing was found wrong: this machine could not finish judging it."
    )
    endless = Reason(
        "timeout",
        "a program did not come back within 60 s; does a loop never end? If it is only long, use "
        "--device cuda",
    )
    words = feedback_for(Evaluation("rejected", DEVICE, reason=endless))
    assert words.endswith("did not come back within 60 s; does a loop never end?")


@pytest.mark.parametrize("estimate", [None, Estimate(1.0, 2.0, "dram", 2.0, "x: float32[4, 8]")])
def test_the_largest_cost_is_asked_for_only_where_there_is_one(estimate: Estimate | None) -> None:
    judged = Evaluation("accepted", DEVICE, estimate=estimate)
    request = TurnRequest("optimise", "m", window=(0,), parent=0)
    asked = render_prompt(FACTS, DEVICE, history_of(judged), request)[-1].content
    assert ("name the largest remaining cost in the findings above" in asked) == bool(estimate)
    assert ("there is no estimate of its time" in asked) == (estimate is None)


@pytest.mark.parametrize("name", NAMES)
def test_nobody_is_told_more_than_25_lines(name: str) -> None:
    assert len(feedback_for(evaluation(name)).splitlines()) <= 25


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
    device = replace(DEVICE, multiprocessors=132)
    (hint,) = hints_for(Evaluation("accepted", device, kernels=(kernel,)))
    assert "16 programs on 132 multiprocessors leave 116 idle" in hint
    (other,) = hints_for(
        Evaluation("accepted", device, kernels=(replace(kernel, grid=(132, 1, 1)),))
    )
    assert "idle" not in other


def test_a_kernel_that_is_not_bound_by_memory_is_not_told_to_read_less() -> None:
    kernel = replace(
        NORM, bound="launch", loaded_bytes=310, fewest_loaded_bytes=100, stored_bytes=31
    )
    assert hints_for(one(kernel)) == []


def test_a_light_kernel_gets_no_hint() -> None:
    assert hints_for(one(replace(NORM, spills=9, registers=255, share_of_device_time=0.1))) == []


def test_spills_come_before_anything_they_cause() -> None:
    kernel = replace(NORM, spills=9, registers=255, occupancy=0.1, occupancy_limiter="registers")
    (hint,) = hints_for(one(kernel))
    assert "9 spill instructions at 255 registers a thread" in hint


def test_narrow_loads_are_named_only_where_none_is_wider() -> None:
    assert "widest loads are 32 bits" in hints_for(one(replace(NORM, load_widths={"32": 4})))[0]
    assert hints_for(one(replace(NORM, load_widths={"32": 4, "128": 1}))) == []


def test_products_without_tensor_cores_are_named() -> None:
    assert "without tensor cores" in hints_for(one(replace(NORM, bound="dot")))[0]
    assert hints_for(one(replace(NORM, bound="dot", tensor_core="wgmma"))) == []


def test_many_launches_are_a_cost_only_where_launches_bind_and_something_is_left() -> None:
    facts = HeadroomFacts("default", 57600, {}, 4.0, "launch", 0.33, 0.67)
    several = replace(one(replace(NORM, launches=3)), headroom=facts)
    assert hints_for(several)[0].startswith("3 launches cost more than the work in them")
    assert hints_for(replace(several, headroom=replace(facts, left=0.1))) == []
    assert hints_for(replace(several, headroom=replace(facts, binds="dram"))) == []


@given(
    st.builds(
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
        bound=st.none() | st.sampled_from(["dram", "l2", "dot", "launch"]),
        load_widths=st.dictionaries(st.sampled_from(["16", "32", "64", "128"]), st.integers(1, 9)),
    )
)
def test_any_facts_can_be_put_into_words_and_unknown_ones_are_left_out(kernel: KernelFacts) -> None:
    message = feedback_for(one(kernel))
    assert "None" not in message
    assert len(hints_for(one(kernel))) <= 1


if __name__ == "__main__":
    for name in NAMES:
        (KEPT / f"{name}.txt").write_text(feedback_for(evaluation(name)), encoding="utf-8")
