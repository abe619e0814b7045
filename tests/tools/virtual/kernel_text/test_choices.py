"""Which way conditions in kernels came out: what is noted of them, and what is not a condition of data."""

from __future__ import annotations

import ast

import pytest
import triton.language as tl

from kernelagent.tools.judge.verify.beyond.untried_choices import UntriedChoices
from kernelagent.tools.virtual.kernel_text.choices import FALSE, TRUE
from kernelagent.tools.virtual.kernel_text.conditions import mark

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
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("chosen", "asked")
    ]


@pytest.mark.parametrize(
    ("statement", "text", "by_data"),
    [
        ("y = tl.where(scale > 3, 0, x)", "scale > 3", True),
        ("y = tl.where(at == 7, 0, x)", "at == 7", False),
        ("if tl.load(flag_ptr) != 0: x = 0", "tl.load(flag_ptr) != 0", True),
        ("y = tl.where(tl.dot(at, at) < 1.5, x, 0)", "tl.dot(at, at) < 1.5", True),
        ("y = x * (x > 4).to(tl.float32)", "x > 4", True),
        ("y = tl.where(~(x > 4)[None, :], 0, x)", "x > 4", True),
        ("tl.store(x_ptr + at, x, mask=x > 0)", "x > 0", True),
        ("while x > 0: x = x - 1", "x > 0", True),
        ("while x: x = x - 1", "x", True),
        (
            "while tl.atomic_cas(flag_ptr, 0, 1) == 1: pass",
            "tl.atomic_cas(flag_ptr, 0, 1) == 1",
            True,
        ),
        ("if scale.to(tl.int32): x = 0", "scale.to(tl.int32)", True),
        ("y = tl.where(tl.minimum(scale, 1), 0, x)", "tl.minimum(scale, 1)", True),
        ("y = assume(x > 3, 0, x)", "x > 3", True),
        ("y = tl.where(scale * 1e38 == float('inf'), 0, x)", "scale * 1e+38 == float('inf')", True),
        ("y = tl.where(x * x == float('inf'), 0, x)", "x * x == float('inf')", True),
        ("y = tl.where(1 / x == float('inf'), 0, x)", "1 / x == float('inf')", True),
        ("y = tl.where(tl.exp(x) == float('inf'), 0, x)", "tl.exp(x) == float('inf')", True),
        ("y = tl.where(x == float('1.5'), 0, x)", "x == float('1.5')", True),
        ("y = tl.where(tl.math.isnan(1 / x), 0, x)", "tl.math.isnan(1 / x)", True),
    ],
)
def test_a_condition_is_noted_once_and_whole(statement: str, text: str, by_data: bool) -> None:
    assert marked(statement) == [(15, text, by_data)]


@pytest.mark.parametrize(
    ("statement", "noted"),
    [
        (
            "y = tl.where((at > 1) & (x < 2), 0, x)",
            {("(at > 1) & (x < 2)", True), ("at > 1", False), ("x < 2", True)},
        ),
        (
            "if n > 5 and not n > 9: x = 0",
            {("n > 5 and (not n > 9)", False), ("n > 5", False), ("n > 9", False)},
        ),
        (
            "y = tl.where((x > 1) ^ (x < 2) ^ (x == 3), 0, x)",
            {
                ("(x > 1) ^ (x < 2) ^ (x == 3)", True),
                ("x > 1", True),
                ("x < 2", True),
                ("x == 3", True),
            },
        ),
        (
            "y = (x > 1).to(tl.int32) + (x < 2) >= 2",
            {("(x > 1).to(tl.int32) + (x < 2) >= 2", True), ("x > 1", True), ("x < 2", True)},
        ),
        (
            "while at >= tl.load(flag_ptr) and at < 2 * tl.load(flag_ptr): x = 0",
            {
                ("at >= tl.load(flag_ptr) and at < 2 * tl.load(flag_ptr)", True),
                ("at >= tl.load(flag_ptr)", False),
                ("at < 2 * tl.load(flag_ptr)", False),
            },
        ),
        (
            "y = tl.where((at > (tl.load(flag_ptr) ^ 7)) & (at < x), 0, x)",
            {
                ("(at > tl.load(flag_ptr) ^ 7) & (at < x)", True),
                ("at > tl.load(flag_ptr) ^ 7", True),
                ("at < x", False),
            },
        ),
        (
            "y = tl.where((x == float('inf')) | (x < 2), 0, x)",
            {("(x == float('inf')) | (x < 2)", True), ("x < 2", True)},
        ),
    ],
)
def test_each_condition_of_several_is_noted_and_the_whole(
    statement: str, noted: set[tuple[str, bool]]
) -> None:
    rows = marked(statement)
    assert {(text, by_data) for _, text, by_data in rows} == noted
    assert len(rows) == len(noted)


@pytest.mark.parametrize(
    "statement",
    [
        "y = tl.where(x == float('-inf'), 0, x)",
        "y = tl.where(x != x, 0, x)",
        "y = tl.where(tl.math.isnan(x), 0, x)",
        "tl.assume(x > 0)",
        "tl.device_assert(x > 0)",
        "assert n > 0",
        "if BLOCK: x = 0",
        "y = tl.where(tl.load(flag_ptr), 0, x)",
        "y = x + 1",
    ],
)
def test_infinities_and_assertions_are_no_choices(statement: str) -> None:
    assert marked(statement) == []


def test_a_condition_of_a_condition_by_name_is_noted_where_it_is_computed() -> None:
    assert marked("y = tl.where(left, 0, x)") == []
    kernel = KERNEL.format(
        "left = at < n\n    left = left & (x != scale)\n    y = tl.where(left, 0, x)"
    )
    function = ast.parse(kernel).body[0]
    assert isinstance(function, ast.FunctionDef)
    mark(function, 1)
    assert "asked" not in ast.unparse(function)


def test_an_assertion_is_a_choice_where_it_is_compiled_in() -> None:
    tree = ast.parse(KERNEL.format("tl.device_assert(x > 0)"))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    mark(function, 1)
    assert "asserted(5, 'x > 0', True, x > 0)" in ast.unparse(function)


def test_the_languages_own_assumption_is_known_by_what_its_name_stands_for() -> None:
    def own(which: object) -> object:
        return which

    for scope, noted in (({"assume": own}, 1), ({"assume": tl.assume}, 0)):
        function = ast.parse(KERNEL.format("y = assume(x > 3)")).body[0]
        assert isinstance(function, ast.FunctionDef)
        mark(function, 1, scope)
        assert ast.unparse(function).count("chosen(5") == noted


def test_a_load_is_known_by_what_its_name_stands_for() -> None:
    for scope, by_data in (({}, False), ({"get": tl.load}, True)):
        function = ast.parse(KERNEL.format("y = get(x_ptr) > 3")).body[0]
        assert isinstance(function, ast.FunctionDef)
        mark(function, 1, scope)
        assert f"chosen(5, 'get(x_ptr) > 3', {by_data}" in ast.unparse(function)


def test_what_is_written_twice_on_a_line_is_two_choices() -> None:
    tree = ast.parse(KERNEL.format("a = x > 3; x = scale; b = x > 3"))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    mark(function, 1)
    text = ast.unparse(function)
    assert "chosen(5, 'x > 3', True" in text
    assert "chosen(5, 'x > 3 (column 31)', True" in text


def told(*rows: list[object]) -> str | None:
    choices = UntriedChoices()
    for row in rows:
        choices.note([{"choices": [row]}])
    return choices.sentence()


def test_an_operand_is_told_unless_it_or_the_whole_is_told_already() -> None:
    whole = "(x > 3) | (y > 3)"
    decided = [5, whole, True, "", None, "x > 3"]
    assert "is false wherever `x > 3` decides it" in str(told([*decided, FALSE]))
    assert "is never decided by `x > 3`" in str(told([*decided, 0]))
    assert told([*decided, TRUE], [*decided, FALSE]) is None
    for other in ([5, whole, True, FALSE], [4, "x > 3", True, FALSE]):
        assert "decide" not in str(told(other, [*decided, FALSE]))


def test_what_came_out_both_ways_in_any_two_calls_is_tried() -> None:
    assert told([3, "x > 0", True, TRUE], [3, "x > 0", True, FALSE]) is None


def test_masks_of_places_may_hold_everywhere_and_nothing_else_may() -> None:
    assert told([3, "at < n", False, TRUE]) is None
    assert "line 3 `at > 700` is false" in str(told([3, "at > 700", False, FALSE]))
    assert "line 3 `x < 9` is true" in str(told([3, "x < 9", True, TRUE]))


def test_many_are_counted_and_none_is_no_sentence() -> None:
    rows = [[line, f"x == {line}", True, FALSE] for line in range(9)]
    assert "likewise in lines 3, 4, 5, 6, 7, 8" in str(told(*rows))
    assert told() is None
