"""What `benchmarks.certificates` makes of certificates, and that its pairs are what they say."""

from __future__ import annotations

import torch

from benchmarks.certificates import PAIRS, Certified, agreeing, examined, page
from benchmarks.evaluation_split import page as split_page
from benchmarks.evaluation_split import split_of
from kernelagent.domain.evaluation import DeviceFacts, Evaluation, Interval, Stage, Timing

CUDA = DeviceFacts("cuda", "NVIDIA H200", "sm_90", "2.11.0", "3.6.0")


def certified(value: float, reach: float = 0.01, seconds: float = 20.0) -> Certified:
    return Certified(Interval(value, value - reach, value + reach), seconds, 200.0)


def test_intervals_agree_that_hold_the_middle_of_all_values() -> None:
    values = [Interval(v, v - 0.01, v + 0.01) for v in (1.02, 1.03, 1.03, 1.035, 1.2)]
    assert agreeing(values) == 4


def test_late_or_doubtful_certificates_do_not_count_and_false_alarms_do() -> None:
    faster = iter([certified(1.03), certified(1.03, seconds=31.0), certified(1.005)])
    itself = iter([certified(1.0), certified(1.02)])
    result = examined("pair", lambda: next(faster), lambda: next(itself), repeat=3, tries=2)
    assert (result.agreeing, result.seen, result.false_alarms) == (2, 1, 1)
    assert "| 2 of 3 | 1 of 3 | 31.0 at most | 1 of 2 |" in page([result], "Here")


def test_both_sides_of_a_pair_answer_alike() -> None:
    for text, waste in PAIRS.values():
        kinds: dict[str, type[torch.nn.Module]] = {}
        for name, more in (("Model", waste), ("ModelNew", "")):
            scope: dict[str, object] = {}
            exec(text.format(name=name, waste=more), scope)
            kinds[name] = scope[name]
        x = torch.randn(640, 8)
        assert torch.equal(kinds["Model"]()(x), kinds["ModelNew"]()(x))


def test_the_split_of_an_evaluation_adds_up_and_is_held_against_the_promise() -> None:
    stages = tuple(Stage(n, "passed", s) for n, s in (("verify", 1.0), ("measure", 2.5)))
    timing = Timing(200.0, 400.0, Interval(2.0, 1.98, 2.02))
    split = split_of(Evaluation("accepted", CUDA, stages=stages, timing=timing))
    assert split.total == 3.5
    text = split_page("NVIDIA H200", "cuda", "x", [split])
    assert "| measure | 2.50 | 71% |" in text
    assert "±1.0%" in text
    assert "kept with it" in text
    slow = split_of(Evaluation("accepted", CUDA, stages=(Stage("verify", "passed", 9.0),)))
    assert "Nothing was timed" in split_page("x", "virtual", "x", [slow])
