from __future__ import annotations

from dataclasses import replace

import pytest

from kernelagent.domain.estimated import Estimated
from kernelagent.domain.evaluation import Estimate, HeadroomFacts
from kernelagent.report.evidence import headroom_words
from kernelagent.report.headroom import headroom_rows
from tests.evaluations import accepted


def test_what_could_be_gained_is_said_in_words_with_units() -> None:
    facts = HeadroomFacts("wide", 3_000_000, {"bf16": 8_000_000_000}, 31.0, "math", 0.5, 0.25)
    assert dict(headroom_rows(facts)) == {
        "least time": "31 µs a call, input set wide",
        "what binds it": "matrix products",
        "has to move": "3 MB",
        "has to multiply": "8 GFLOP in bf16",
        "attained": "50% of the possible speed",
        "could be saved": "at most 25% of this candidate's time",
        "ceilings": "the device's, from its data sheet",
    }


def test_a_problem_without_products_has_no_row_of_them_and_measured_ceilings_are_called_so() -> (
    None
):
    facts = HeadroomFacts("default", 64, {}, 2.0, "launch", 1.0, 0.0, "measured")
    rows = dict(headroom_rows(facts))
    assert "has to multiply" not in rows
    assert rows["what binds it"] == "the cost of a launch"
    assert rows["ceilings"] == "the device's, measured here"


@pytest.mark.parametrize(
    ("binds", "compiled_us", "named"),
    [("launch", 15.2, True), ("launch", 25.0, False), ("dram", 15.2, False)],
)
def test_a_least_time_above_torch_compiles_estimate_says_whose_launch_is_in_it(
    binds: str, compiled_us: float, *, named: bool
) -> None:
    compiled = Estimated(compiled_us, compiled_us / 2, compiled_us * 2)
    estimate = Estimate(20.4, 155.0, "launch", 7.6, "", compile=compiled)
    facts = HeadroomFacts("default", 298_000, {}, 20.38, binds, 1.0, 0.0)  # type: ignore[arg-type]
    words = headroom_words(replace(accepted(7.6), estimate=estimate, headroom=facts))
    assert words is not None
    assert ("That is with a launch by `triton.jit`" in words) is named
    assert (f"its estimate of {compiled_us} µs lies below" in words) is named
