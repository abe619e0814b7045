"""`print(result.evaluation)` is a few lines, not everything there is."""

from __future__ import annotations

from kernelagent.domain.evaluation import DeviceFacts, Estimate, Evaluation, Reason

DEVICE = DeviceFacts("virtual", "H200, not present", "sm_90", "2.13.0", "3.9.0")


def test_an_accepted_one_is_its_verdict_and_its_number() -> None:
    estimate = Estimate(10.0, 15.0, "dram", 1.5, "x: float32[4, 8]")
    text = str(
        Evaluation("accepted", DEVICE, estimate=estimate, envelope={"input_sets": [{}] * 99})
    )
    assert text == (
        "accepted on H200, not present (virtual)\nnot timed; estimate 10.0 µs a call, eager 15.0 µs"
    )


def test_a_rejected_one_says_why_in_a_line() -> None:
    reason = Reason("wrong_output", "output differs at [0, 1]\nmore\nand more")
    text = str(Evaluation("rejected", DEVICE, reason=reason))
    assert text.splitlines()[1] == "wrong_output: output differs at [0, 1]"
