"""The numbers of a source, however it is written."""

from __future__ import annotations

import time

from kernelagent.tools.judge.problem.trials.literals import literals_of


def test_an_expression_a_thousand_deep_and_numbers_without_bound_end_soon():
    began = time.process_time()
    deep = "A = " + "+".join(["1"] * 1500)
    long = "B = " + "*".join(["(2**1000)"] * 300) + "\nC = 12345"
    assert 1500 in literals_of(deep).values
    assert 12345.0 in literals_of(long).values
    assert literals_of("A = " + "(" * 5000 + "1" + ")" * 5000).values in ((), (1.0,))
    assert time.process_time() - began < 2.0
