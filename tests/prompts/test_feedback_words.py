"""The words of fixed evaluations, kept as files: a change of wording is seen and decided.

`evaluations/NAME.json` holds the verdict, `evaluations/NAME.txt` what the model is told about it.
`python tests/prompts/test_feedback_words.py` writes the words anew after a change that is meant.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernelagent.domain.evaluation import (
    DeviceFacts,
    Disclosure,
    Estimate,
    Evaluation,
    KernelFacts,
    Reason,
)
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.serialization import from_json
from kernelagent.prompts import render_prompt
from kernelagent.prompts.feedback import feedback_for
from kernelagent.tools.judge.verify.process.deaths import out_of_time
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


def test_an_element_too_far_off_for_its_own_size_is_not_said_to_be_within_what_is_allowed() -> None:
    errors = {"rms_error": 1e-9, "rms_budget": 1e-8, "max_error": 2e-8, "max_budget": 4e-8}
    reason = Reason("wrong_output", "output is wrong", errors)
    words = feedback_for(Evaluation("rejected", DEVICE, reason=reason))
    assert words.endswith("- error: the largest 2e-08, too much for an element of its size")


def test_the_candidates_line_stands_with_its_text() -> None:
    detail = {"launch": "norm", "line": 12, "text": "x = tl.load(x_ptr + i)"}
    reason = Reason("out_of_bounds", "`norm`: load out of bounds", detail)
    words = feedback_for(Evaluation("rejected", DEVICE, reason=reason))
    assert words.endswith("- launch: norm\n- line 12: x = tl.load(x_ptr + i)")


def test_ulps_are_told_as_a_number_that_can_be_read() -> None:
    errors = {"rms_error": 1.0, "rms_budget": 1e-8, "max_error": 2.0, "max_budget": 4e-8}
    reason = Reason("wrong_output", "wrong", {**errors, "ulps": 250_249.7, "dtype": "float32"})
    words = feedback_for(Evaluation("rejected", DEVICE, reason=reason))
    assert "- error: the largest 2 (250,250 ulps of float32) of 4e-08 allowed, RMS 1 of" in words


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


def test_programs_and_their_waves_stand_beside_what_they_read() -> None:
    kernel = replace(NORM, grid=(7, 20, 1), waves=0.13, loaded_bytes=310, fewest_loaded_bytes=100)
    device = replace(DEVICE, multiprocessors=132)
    words = feedback_for(Evaluation("accepted", device, kernels=(kernel,)))
    assert (
        "140 programs in 0.13 waves, the last on 8 of 132 multiprocessors; reads 3.1× the fewest"
        in words
    )


def test_notes_that_the_version_before_had_as_well_come_last() -> None:
    known = tuple(Disclosure(f"known_{n}", f"known {n}") for n in range(4))
    new = Disclosure("new", "this is new")
    before, now = Evaluation("accepted", DEVICE), Evaluation("accepted", DEVICE)
    before, now = replace(before, disclosures=known), replace(now, disclosures=(*known, new))
    notes = [line for line in feedback_for(now, before).splitlines() if line.startswith("Note")]
    assert notes == ["Note: this is new", "Note: known 0", "Note: known 1", "Note: known 2"]
    assert "this is new" not in feedback_for(now)


def test_why_there_is_no_estimate_is_never_among_the_notes_that_are_cut() -> None:
    others = tuple(Disclosure(f"other_{n}", f"other {n}") for n in range(6))
    why = Disclosure("not_estimated", "its loops go by loaded values")
    judged = Evaluation("accepted", DEVICE, disclosures=(*others, why))
    assert "Note: its loops go by loaded values\nNote: other 0" in feedback_for(judged)


@pytest.mark.parametrize("programs", [64, 132, 264, 132 * 40 + 8])
def test_nothing_is_said_of_a_tail_where_the_last_programs_leave_hardly_any_idle(
    programs: int,
) -> None:
    kernel = replace(NORM, grid=(programs, 1, 1))
    device = replace(DEVICE, multiprocessors=132)
    assert "the last on" not in feedback_for(Evaluation("accepted", device, kernels=(kernel,)))


def test_spills_and_stages_are_told_with_what_the_estimate_charges_for_them() -> None:
    kernel = replace(NORM, spills=431, spills_us=12.34, num_stages=1, stages_us=3.0)
    words = feedback_for(one(kernel))
    assert "431 spill instructions (estimate: 12.3 µs)" in words
    placed = feedback_for(one(replace(kernel, spill_lines=(40, 12))))
    assert "431 spill instructions, most of lines 40, 12 (estimate: 12.3 µs)" in placed
    assert "loads not hidden by 1 stage (estimate: 3 µs)" in words
    measured = feedback_for(one(replace(kernel, spills_us=None, stages_us=None)))
    assert "431 spill instructions;" in measured
    assert "stage" not in measured


if __name__ == "__main__":
    for name in NAMES:
        (KEPT / f"{name}.txt").write_text(feedback_for(evaluation(name)), encoding="utf-8")
