"""Lines for the terminal: nothing in them is cut in the middle of a number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelagent.domain.evaluation import Reason
from kernelagent.domain.events import Logged, ModuleEmitted, ProblemDescribed, WholeModelChecked
from kernelagent.domain.whole_model import WholeModel
from kernelagent.prompts.beginning import asked_line
from kernelagent.prompts.last_screen import whole_model_lines
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


@pytest.mark.parametrize(
    ("models", "given", "limits"),
    [
        (["compiler"], {}, "at most 20 turns"),
        (["compiler"], {"budget_usd": 2.0}, "at most 2 dollars"),
        (["compiler", "openai/any"], {}, "at most 20 turns, 5 dollars"),
    ],
)
def test_dollars_are_named_where_a_model_may_cost_some(
    models: list[str], given: dict[str, float], limits: str
) -> None:
    line = asked_line({"device": "auto", "model": models, **given})
    assert line is not None
    assert line.endswith(limits)


def test_a_parts_file_is_taken_back_in_words_where_the_whole_model_is_wrong_with_it() -> None:
    written = ModuleEmitted(0, "part.py", "0" * 64, of_a_part=True)
    whole = WholeModel("m", ("norm",), False, "wrong_output: off", 1, 1, DEVICE)
    lines = [line_for(Logged(0, 0.0, event)) for event in (written, WholeModelChecked(whole))]
    assert lines == [
        "written, for the whole model to be tried with it: part.py",
        "in the whole model: wrong_output: off; the written file is taken away again",
    ]
    kept = line_for(Logged(0, 0.0, WholeModelChecked(replace(whole, right=True, why="right"))))
    assert kept == "in the whole model: right"


def test_a_whole_models_time_under_train_is_said_to_be_a_forwards() -> None:
    whole = WholeModel("m", ("norm",), True, "right", 3, 3, DEVICE, before_us=20.0, after_us=10.0)
    assert "of a forward alone" not in whole_model_lines(whole)[1]
    assert "of a forward alone" in whole_model_lines(replace(whole, trains=True))[1]
