"""Which way conditions in kernels came out: what is noted of them, and what is not a condition of data."""

from __future__ import annotations

import ast

import pytest

from kernelagent.tools.judge.verify.untried_choices import UntriedChoices
from kernelagent.tools.virtual.choices import FALSE, TRUE
from kernelagent.tools.virtual.conditions import mark

KERNEL = """\
def kernel(x_ptr, flag_ptr, n, BLOCK):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    scale = x * 2
    {}
"""


def marked(statement: str) -> list[tuple[int, str, bool]]:
    """Line, text and whether data decide, of each condition that is noted in the last statement."""
    tree = ast.parse(KERNEL.format(statement))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    mark(function, 11)
    calls = [n for n in ast.walk(function.body[-1]) if isinstance(n, ast.Call)]
    return [
        tuple(ast.literal_eval(argument) for argument in call.args[:3])
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "chosen"
    ]


@pytest.mark.parametrize(
    ("statement", "text", "by_data"),
    [
        ("y = tl.where(scale > 3, 0, x)", "scale > 3", True),
        ("y = tl.where(at == 7, 0, x)", "at == 7", False),
        ("y = tl.where((at > 1) & (x < 2), 0, x)", "(at > 1) & (x < 2)", True),
        ("if tl.load(flag_ptr) != 0: x = 0", "tl.load(flag_ptr) != 0", True),
        ("y = tl.where(tl.dot(at, at) < 1.5, x, 0)", "tl.dot(at, at) < 1.5", True),
        ("if n > 5 and not n > 9: x = 0", "n > 5 and (not n > 9)", False),
        ("y = x * (x > 4).to(tl.float32)", "x > 4", True),
        ("y = tl.where(~(x > 4)[None, :], 0, x)", "~(x > 4)[None, :]", True),
        ("tl.store(x_ptr + at, x, mask=x > 0)", "x > 0", True),
    ],
)
def test_a_condition_is_noted_once_and_whole(statement: str, text: str, by_data: bool) -> None:
    assert marked(statement) == [(15, text, by_data)]


@pytest.mark.parametrize(
    "statement",
    [
        "y = tl.where(x == float('-inf'), 0, x)",
        "y = tl.where(x != x, 0, x)",
        "tl.device_assert(x > 0)",
        "assert n > 0",
        "while x > 0: x = x - 1",
        "y = x + 1",
    ],
)
def test_infinities_assertions_and_ends_of_loops_are_no_choices(statement: str) -> None:
    assert marked(statement) == []


def told(*rows: list[object]) -> str | None:
    choices = UntriedChoices()
    for row in rows:
        choices.note([{"choices": [row]}])
    return choices.sentence


def test_what_came_out_both_ways_in_any_two_calls_is_tried() -> None:
    assert told([3, "x > 0", True, TRUE], [3, "x > 0", True, FALSE]) is None


def test_masks_of_places_may_hold_everywhere_and_nothing_else_may() -> None:
    assert told([3, "at < n", False, TRUE]) is None
    assert "line 3 `at > 700` is false" in str(told([3, "at > 700", False, FALSE]))
    assert "line 3 `x < 9` is true" in str(told([3, "x < 9", True, TRUE]))


def test_many_are_counted_and_none_is_no_sentence() -> None:
    rows = [[line, f"x == {line}", True, FALSE] for line in range(9)]
    assert "6 more likewise" in str(told(*rows))
    assert told() is None
