"""What a name holds in a branch that a launch does not take makes no condition of data."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.kernel_text.branches import asked, taken
from tests.tools.virtual.kernel_text.test_effects import told


@triton.jit
def packed_or_not(
    x_ptr: Any, out_ptr: Any, ends_ptr: Any, n: Any, PACKED: tl.constexpr, BLOCK: tl.constexpr
) -> None:
    first = 0
    if PACKED:
        first = tl.load(ends_ptr)
        n = tl.load(ends_ptr + 1) - first
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + first + at, mask=at < n, other=0.0)
    tl.store(out_ptr + first + at, x * 2.0, mask=at < n)


@pytest.fixture(scope="module", params=["together", "one by one"])
def interpreter(request: pytest.FixtureRequest) -> BatchedInterpreter:
    return (
        BatchedInterpreter() if request.param == "together" else BatchedInterpreter(most_together=0)
    )


def _told(interpreter: BatchedInterpreter, *, packed: bool) -> str:
    x, out, ends = torch.randn(32), torch.zeros(32), torch.tensor([0, 32], dtype=torch.int32)
    return told(interpreter, packed_or_not, x, out, ends, 32, packed, grid=2)


def test_a_length_that_only_another_branch_loads_is_no_data(
    interpreter: BatchedInterpreter,
) -> None:
    assert _told(interpreter, packed=False) == ""


def test_a_length_that_is_loaded_is_data_in_whatever_order_launches_come(
    interpreter: BatchedInterpreter,
) -> None:
    _told(interpreter, packed=False)
    assert "`at < n` is true" in _told(interpreter, packed=True)
    assert _told(interpreter, packed=False) == ""


TEXT = """
def kernel(ptr, n, A, B, C):
    if {}:
        x = 1
    else:
        y = 2
    {}
"""


def _given(test: str, last: str = "pass", **constants: Any) -> set[str]:
    function = ast.parse(TEXT.format(test, last)).body[0]
    assert isinstance(function, ast.FunctionDef)
    nodes = [node for node in taken(function, constants) if isinstance(node, ast.Name)]
    return {node.id for node in nodes if isinstance(node.ctx, ast.Store)} & {"x", "y"}


@pytest.mark.parametrize(
    ("test", "constants", "given"),
    [
        ("A", {"A": True}, {"x"}),
        ("A", {"A": 0}, {"y"}),
        ("A", {"A": None}, {"y"}),
        ("A is not None", {"A": None}, {"y"}),
        ("not A", {"A": False}, {"x"}),
        ("A == 'gelu'", {"A": "gelu"}, {"x"}),
        ("A <= 128", {"A": 256}, {"y"}),
        ("A < 'a'", {"A": 1}, {"x", "y"}),
        ("A and n > 3", {"A": False}, {"y"}),
        ("A and n > 3", {"A": True}, {"x", "y"}),
        ("A or n > 3", {"A": True}, {"x"}),
        ("n > 3 or A", {"A": True}, {"x", "y"}),
        ("A & B", {"A": False, "B": False}, {"x", "y"}),
        ("0 < A < 3", {"A": 1}, {"x", "y"}),
        ("A", {}, {"x", "y"}),
    ],
)
def test_a_branch_is_left_out_where_constants_decide_against_it(
    test: str, constants: dict[str, Any], given: set[str]
) -> None:
    assert _given(test, **constants) == given


def test_what_the_text_gives_another_value_decides_nothing() -> None:
    assert _given("A", "A = tl.load(ptr)", A=False) == {"x", "y"}
    assert _given("A", "(A := tl.load(ptr))", A=False) == {"x", "y"}
    assert _given("A", "for A in range(n): pass", A=False) == {"x", "y"}


def test_only_what_branches_ask_for_makes_another_text_of_a_kernel() -> None:
    function = packed_or_not.parse().body[0]
    assert isinstance(function, ast.FunctionDef)
    assert asked(function) == {"PACKED"}
