from __future__ import annotations

from kernelagent.domain.evaluation import HeadroomFacts
from kernelagent.report.headroom import headroom_rows


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
