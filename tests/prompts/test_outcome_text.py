"""The last screen of a run: what, how sure, what next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernelagent.domain.estimated import Estimated
from kernelagent.domain.evaluation import Correctness, Disclosure
from kernelagent.prompts.last_screen import outcome_text
from kernelagent.prompts.wording import number
from tests.dropin.emitted import estimated, measured

OUT = Path("norm_optimized.py")
AGAIN = "kernelagent evaluate norm.py norm_optimized.py"


def labels(text: str) -> list[str]:
    return [line.strip().partition(":")[0] for line in text.splitlines()[1:] if ": " in line]


def test_what_how_sure_and_what_next_stand_in_this_order() -> None:
    text = outcome_text(estimated(), OUT, "", AGAIN)
    assert labels(text)[:4] == ["what", "how sure", "where", "next"]
    assert "from norm_optimized import optimized; model.part = optimized(model.part)" in text


def test_an_estimate_is_called_so_and_how_to_time_it_is_said() -> None:
    assert "not timed; estimate" in outcome_text(estimated(), OUT, "", AGAIN)
    assert "where there is a GPU" in outcome_text(estimated(), OUT, "", AGAIN)
    assert "where there is a GPU" not in outcome_text(measured(), OUT, "", AGAIN)


def test_remarks_are_counted_and_their_place_is_named() -> None:
    remark = Disclosure("envelope", "neighbouring inputs: " + "a long list; " * 20)
    text = outcome_text(replace(estimated(), disclosures=(remark,)), OUT, "", AGAIN)
    assert "1 remark, in the file's header and the report" in text
    assert "a long list" not in text


def test_how_near_the_answers_came_to_their_budget_is_said() -> None:
    result = Correctness(trials=18, cases=(), error=0.02, budget=0.1)
    text = outcome_text(replace(estimated(), correctness=result), OUT, "", AGAIN)
    assert "18 trials against a float64 reference, the worst error 20% of its budget" in text


def test_the_sizes_that_the_kernels_answer_are_said() -> None:
    def of(*shape: object) -> dict[str, object]:
        return {"name": "s", "args": [{"dtype": "float32", "shape": list(shape)}]}

    sets = [of(4, 8), of(5, 8), of({"min": 1, "max": 64, "multiple_of": 8}, 8), of("any", 8)]
    text = outcome_text(estimated(input_sets=sets), OUT, "", AGAIN)
    assert (
        "  where: the kernels answer inputs of [4, 8]; [5, 8]; [1 to 64 by 8, 8]; [any, 8]; "
        "the original module answers all others\n"
    ) in text
    many = outcome_text(estimated(input_sets=[of(n, 8) for n in range(1, 10)]), OUT, "", AGAIN)
    assert "[6, 8] and 3 more; the original" in many


def test_where_torch_compile_may_be_as_fast_the_last_screen_says_so() -> None:
    eager, mine = Estimated.within(100.0, 0.8, 1.2), Estimated.within(40.0, 0.8, 1.2)
    compiled = Estimated.within(45.0, 0.8, 1.2)
    given = estimated()
    assert given.estimate is not None
    near = replace(
        given.estimate,
        candidate_us=40.0,
        eager_us=100.0,
        candidate=mine,
        eager=eager,
        compile=compiled,
        speedup_compile=compiled.over(mine),
    )
    assert "torch.compile 45.0 µs (torch.compile may be faster)" in number(
        replace(given, estimate=near)
    )
    less = Estimated.within(30.0, 0.8, 1.2)
    ahead = replace(near, compile=less, speedup_compile=less.over(mine))
    assert "30.0 µs (torch.compile is likely as fast, or faster)" in number(
        replace(given, estimate=ahead)
    )
    far = Estimated.within(200.0, 0.9, 1.1)
    away = replace(near, compile=far, speedup_compile=far.over(mine))
    text = number(replace(given, estimate=away))
    assert "torch.compile 200.0 µs," in text
    assert "as fast" not in text


def test_the_command_that_times_it_is_whole() -> None:
    assert AGAIN in outcome_text(estimated(), OUT, "", AGAIN)
    assert "PROBLEM" not in outcome_text(estimated(), OUT, "", AGAIN)
