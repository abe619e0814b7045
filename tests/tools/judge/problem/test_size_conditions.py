"""What a candidate asks of sizes is read from its text, and sizes are found that decide it."""

from __future__ import annotations

import ast
import itertools
import random

import numpy as np
import pytest

from kernelagent.tools.judge.problem.trials.planting.literals import literals_of
from kernelagent.tools.judge.problem.trials.size_conditions import (
    Beside,
    size_conditions,
    sizes_that_decide,
)

FORWARD = """
def forward(self, x):
    y = torch.empty_like(x)
    rows, columns = x.shape
    {lines}
    kernel[(columns,)](x, y, rows, BLOCK=triton.next_power_of_2(columns))
    return y
"""


def conditions(lines: str):
    return size_conditions(ast.parse(FORWARD.format(lines=lines)))


def decided(lines: str, most: int = 800, tried=(1, 96, 769)):
    beside = Beside((96, 128), (128,))
    return sizes_that_decide(conditions(lines), most, tried, beside, random.Random(3), 6)


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        ("more = 1 if rows % 61 == 28 else 0", lambda n: n % 61 == 28),
        ("left = (rows * 7) % 61; more = 1 if left == 13 else 0", lambda n: n * 7 % 61 == 13),
        ("a = rows * rows; b = a - a // 211 * 211; more = b == 16", lambda n: n * n % 211 == 16),
        ("more = divmod(rows, 83)[1] in (17, 19)", lambda n: n % 83 in (17, 19)),
        ("more = x.shape[0] ^ 0x155 == 0", lambda n: n == 0x155),
        ("if not (x.size(0) + 5) % 71: more = 1", lambda n: (n + 5) % 71 == 0),
        ("more = 1 if not rows % 67 and rows > 300 else 0", lambda n: n % 67 == 0 and n > 300),
        ("more = {29: 1.01}.get(rows % 73, 1.0)", lambda n: n % 73 == 29),
        ("more = max(0, 1 - abs(rows % 73 - 29))", lambda n: n % 73 == 29),
        ("more = rows % 79 // 78", lambda n: n % 79 == 78),
        ("more = x.numel() // 128 % 101 == 55", lambda n: n % 101 == 55),
        ("more = triton.cdiv(rows, 7) == 99", lambda n: -(-n // 7) == 99),
        ("if (left := rows % 61) == 28: more = 1", lambda n: n % 61 == 28),
        ("if (left := rows % 61) and left == 28: more = 1", lambda n: n % 61 == 28),
        ("more = rows - columns == 401", lambda n: n - 96 == 401 or n - 128 == 401),
        ("more = rows % 97 == columns % 31", lambda n: n % 97 in (96 % 31, 128 % 31)),
    ],
)
def test_a_size_that_decides_a_condition_is_found(lines: str, right) -> None:
    assert any(right(size) for size in decided(lines))


def test_the_cases_of_a_match_are_conditions() -> None:
    lines = "match rows % 61:\n        case 28 | 30:\n            more = 1"
    assert {size % 61 for size in decided(lines)} >= {28, 30}


def test_one_size_decides_as_many_conditions_as_it_can() -> None:
    lines = "; ".join(f"c{n} = rows % {n} == 3" for n in (7, 11, 13))
    found = conditions(lines)
    sizes = sizes_that_decide(found, 2000, (1, 7, 11, 13, 96), Beside(), random.Random(3), 6)
    assert all(sizes[0] % n == 3 for n in (7, 11, 13))


@pytest.mark.parametrize(
    "lines",
    [
        "pass",
        "more = rows > 0",
        "more = rows % 2 == 0",
        "more = x.stride(0) == 17",
        "more = self.training",
        "more = rows is None",
        "y = x[:, None]; z = y[rows : rows + 2]",
    ],
)
def test_what_was_decided_both_ways_or_no_size_decides_asks_for_no_size(lines: str) -> None:
    assert decided(lines) == []


def test_a_name_that_is_bound_twice_stands_for_itself() -> None:
    lines = "left = rows % 61\n    left = left + 1\n    more = left == 13"
    (condition,) = [c for c in conditions(lines) if c.text.startswith("left")]
    assert (condition.text, condition.open) == ("left == 13", ("left",))


def test_the_name_of_a_comprehension_is_no_value_that_was_bound_before() -> None:
    lines = "left = rows % 61\n    more = 3 in [left * 2 for left in (1, rows)]"
    assert all("for left in" in c.text or c.open == ("rows",) for c in conditions(lines))


def test_names_bound_to_names_may_not_make_a_condition_of_any_size() -> None:
    names = [f"n{at}" for at in range(12)]
    lines = "\n    ".join(
        [f"n0 = {' + '.join(['rows'] * 9)}"]
        + [f"{b} = {' + '.join([a] * 9)}" for a, b in itertools.pairwise(names)]
        + ["more = n11 == 13"]
    )
    assert conditions(lines) == ()


def test_kernels_are_read_as_functions_are_and_lanes_are_no_sizes() -> None:
    source = """
@triton.jit
def kernel(x_ptr, y_ptr, rows, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < rows
    scale = tl.where(rows % 89 == 40, 1.01, 1.0)
"""
    by_text = {condition.text: condition for condition in literals_of(source).conditions}
    assert set(by_text) == {"rows % 89 == 40", "rows % 89 == 0"}
    condition = by_text["rows % 89 == 40"]
    held = condition.holds({"rows": np.arange(1, 200)})
    assert held is not None
    assert (np.flatnonzero(held) + 1).tolist() == [40, 129]


def test_a_string_that_python_cannot_write_within_a_string_is_no_condition_and_ends_nothing() -> (
    None
):
    text = """\
def forward(self, x, n):
    line = "a\\n"
    label = f"float('{line}')"
    if label == "b":
        return x
    if x.shape[0] == 77:
        return x + 1
"""
    assert [condition.text for condition in size_conditions(ast.parse(text))] == [
        "x.shape[0] == 77"
    ]
