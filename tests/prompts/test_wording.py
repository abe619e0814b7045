"""Lines for the terminal: nothing in them is cut in the middle of a number."""

from __future__ import annotations

from dataclasses import replace

from kernelagent.domain.evaluation import Reason
from kernelagent.domain.events import Logged, ProblemDescribed
from kernelagent.prompts.wording import line_for, shortened, summary
from tests.evaluations import DEVICE, FACTS, rejected


def test_numbers_in_a_turns_line_are_whole() -> None:
    message = (
        "output is wrong in 22.8% of 32768 elements; the error is everywhere and 7.5e-04 of the "
        "values, as from TF32 inside; first at [0, 22, 0]: got 1.4316, expected 0.985472"
    )
    evaluation = replace(rejected(), reason=Reason("wrong_output", message))
    assert summary(evaluation).endswith("got 1.4316, expected 0.985472")
    for most in range(20, len(message)):
        words = shortened(message, most).split()
        assert words[-1] == "…"
        assert words[:-1] == message.split()[: len(words) - 1]


def test_inputs_that_were_read_as_a_set_of_another_name_are_shown_so() -> None:
    (given,) = FACTS.input_sets
    for name, words in (("default", ""), ("y", " (input set 'y')")):
        facts = replace(FACTS, input_sets=(replace(given, name=name),))
        line = line_for(Logged(0, 0.0, ProblemDescribed(facts, DEVICE, "off")))
        assert line is not None
        assert line.startswith(f"problem {FACTS.name}: forward{given.arguments}{words}\n")
