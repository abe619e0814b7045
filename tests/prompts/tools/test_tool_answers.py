"""Every kind of answer has its words; the right ones are tested where the real judge gives them."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from kernelagent.domain.evaluation import KernelFacts
from kernelagent.domain.replies.tool_calls import (
    Assembly,
    Benched,
    Checked,
    Library,
    Probed,
    ReferenceLook,
    Swept,
    SweptRow,
    ToolPart,
    ToolResult,
)
from kernelagent.prompts.tools.tool_answers import answer_text, result_summary
from tests.evaluations import DEVICE

ANSWERS = {
    "checked": (Checked(), "It compiles and launches", "0 kernels, not timed"),
    "probed": (Probed("default"), "default", "default"),
    "reference": (ReferenceLook("default", None, "norm", 1, (), ()), "`norm`", "norm"),
    "assembly": (Assembly("relu", "sass", None), "`relu`", "relu"),
    "swept": (Swept((), measured=False), "0 configurations", "0 configurations"),
    "benched": (Benched(), "Timed; nothing was verified", "timed"),
    "library": (Library({"relu": "a rectifier"}), "- `relu`: a rectifier", "1 kernels"),
}


@pytest.mark.parametrize("field", ANSWERS)
def test_an_answer_is_worded_after_its_own_kind(field: str) -> None:
    part, text, summary = ANSWERS[field]
    result = ToolResult(**{field: part})
    assert result.part is part
    assert text in answer_text(result, DEVICE)
    assert summary in result_summary(result)


def test_a_check_says_what_spills_and_waiting_cost_as_a_verdict_does() -> None:
    kernel = KernelFacts("f", 1, spills=31, spills_us=12.34, num_stages=1, stages_us=3.0)
    text = answer_text(ToolResult(checked=Checked(kernels=(kernel,))), DEVICE)
    assert "31 spill instructions (estimate: 12.3 µs)" in text
    assert "loads not hidden by 1 stage (estimate: 3 µs)" in text


def test_a_sweep_names_each_kernel_once_whose_rounds_loaded_values_say() -> None:
    rows = tuple(SweptRow({"B": n}, 1.0 * n, loops_by_values=("walks",)) for n in (1, 2))
    text = answer_text(ToolResult(swept=Swept(rows, measured=False)), DEVICE)
    assert text.count("how many rounds a loop of `walks` has") == 1


def test_no_kind_of_answer_is_without_words() -> None:
    assert {type(part) for part, *_ in ANSWERS.values()} == set(get_args(ToolPart))
    fields = set(get_type_hints(ToolResult)) - {"seconds", "unfit"}
    assert fields == set(ANSWERS), "`ToolResult.part` looks at each"


def test_what_does_not_fit_is_said_first_and_nothing_is_said_of_nothing() -> None:
    assert answer_text(ToolResult(unfit="no such set"), DEVICE) == "Not answered: no such set."
    assert result_summary(ToolResult(unfit="no such set")) == "not answered: no such set"
    assert answer_text(ToolResult(), DEVICE) == "Nothing came of it."
    assert result_summary(ToolResult()) == "nothing came of it"
