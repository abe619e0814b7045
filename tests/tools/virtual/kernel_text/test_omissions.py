"""A kernel that runs without a part of it: what it leaves, together and one by one, and which parts it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.kernel_text.omissions import (
    BEGINNING,
    BOUND,
    FIRST,
    ROUND,
    STEP,
    UPPER,
    Omission,
    Omitting,
)
from tests.tools.virtual.test_batched import run


@triton.jit
def counts(out_ptr, starts_ptr, n, ROUNDS: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, 8)
    total = tl.zeros((8,), tl.int32)
    for _ in range(ROUNDS):
        total += 1
    for _ in tl.static_range(3):
        total += 10
    first = tl.load(starts_ptr + row)
    for _ in range(first, n):
        total += 100
    tl.store(out_ptr + row * 8 + at, total, mask=at < n)


def first_line() -> int:
    return int(counts.fn.__code__.co_firstlineno)


def line_of(text: str) -> int:
    lines = counts.src.splitlines()
    (place,) = [number for number, line in enumerate(lines) if text in line]
    # The decorator stands before the text that Triton keeps.
    return first_line() + 1 + place


def run_without(
    omitted: Sequence[Omission],
    most_together: int | None,
    kernel: Any,
    grid: tuple[int, ...],
    named: dict[str, Any],
) -> list[Omission]:
    """Runs it on these tensors; returns the parts that it has."""
    interpreter = BatchedInterpreter(*[] if most_together is None else [most_together])
    omitting = Omitting(omitted)
    interpreter.omit(omitting)
    assert run(interpreter, kernel, grid, named).fault is None
    return list(omitting.met)


def left_by(most_together: int | None, omitted: Sequence[Omission]) -> tuple[Any, list[Omission]]:
    out = torch.full((2, 8), -1, dtype=torch.int32)
    starts = torch.tensor([6, 3], dtype=torch.int32)
    named = {"out_ptr": out, "starts_ptr": starts, "n": 7, "ROUNDS": 4}
    met = run_without(omitted, most_together, counts, (2,), named)
    return out.tolist(), met


EVERYTHING = [[134] * 7 + [-1], [434] * 7 + [-1]]
PARTS = {
    Omission(ROUND, line_of("range(ROUNDS)"), "range(ROUNDS)"): [
        [133] * 7 + [-1],
        [433] * 7 + [-1],
    ],
    Omission(ROUND, line_of("static_range"), "tl.static_range(3)"): [
        [124] * 7 + [-1],
        [424] * 7 + [-1],
    ],
    # The first program goes one round alone.
    Omission(ROUND, line_of("range(first, n)"), "range(first, n)"): [
        [134] * 7 + [-1],
        [334] * 7 + [-1],
    ],
    Omission(BEGINNING, line_of("range(ROUNDS)"), "range(ROUNDS)"): [
        [133] * 7 + [-1],
        [433] * 7 + [-1],
    ],
    Omission(BEGINNING, line_of("static_range"), "tl.static_range(3)"): [
        [124] * 7 + [-1],
        [424] * 7 + [-1],
    ],
    Omission(BEGINNING, line_of("range(first, n)"), "range(first, n)"): [
        [134] * 7 + [-1],
        [334] * 7 + [-1],
    ],
    Omission(BOUND, line_of("mask=at < n"), "at < n"): [
        [134] * 6 + [-1] * 2,
        [434] * 6 + [-1] * 2,
    ],
    Omission(FIRST, line_of("tl.arange"), "tl.arange(0, 8)"): [
        [-1] + [134] * 6 + [-1],
        [-1] + [434] * 6 + [-1],
    ],
    Omission(UPPER, line_of("tl.arange"), "tl.arange(0, 8)"): [
        [134] * 4 + [-1] * 4,
        [434] * 4 + [-1] * 4,
    ],
}


@pytest.mark.parametrize("most_together", [None, 0], ids=["together", "one by one"])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.text}, {part.kind}")
def test_a_kernel_runs_without_one_part_of_it(part: Omission, most_together: int | None) -> None:
    assert left_by(most_together, [part])[0] == PARTS[part]


@pytest.mark.parametrize("most_together", [None, 0], ids=["together", "one by one"])
def test_all_parts_that_a_launch_has_are_noted_and_nothing_else_changes(
    most_together: int | None,
) -> None:
    left, met = left_by(most_together, [])
    assert left == EVERYTHING
    assert {part for part in met if part.kind != STEP} == set(PARTS)


def test_parts_are_left_out_together() -> None:
    loops = [part for part in PARTS if part.kind == ROUND]
    assert left_by(None, loops)[0] == [[123] * 7 + [-1], [323] * 7 + [-1]]


@triton.jit
def steps(out_ptr, n, TWICE: tl.constexpr):
    at = tl.arange(0, 4)
    value = at * 1
    other = value + 5
    value = value + 1
    if TWICE:
        value += 2
        fresh = value
        fresh = fresh + 0
    for _ in range(2):
        value, other = other, value + 7
    value = value.to(tl.float32)
    tl.store(out_ptr + at, value.to(tl.int32))


REBINDINGS = {
    "value = at * 1": [10, 11, 12, 13],
    "other = value + 5": [10, 11, 12, 13],
    "value = value + 1": [9, 10, 11, 12],
    "value += 2": [8, 9, 10, 11],
    "fresh = fresh + 0": [10, 11, 12, 13],
    "value, other = (other, value + 7)": [3, 4, 5, 6],
}
"""What is stored without each; names without a value before hold the operand."""


@pytest.mark.parametrize("most_together", [None, 0], ids=["together", "one by one"])
def test_a_statement_that_gives_another_value_can_be_left_out(most_together: int | None) -> None:
    def left(omitted: Sequence[Omission]) -> tuple[Any, list[Omission]]:
        out = torch.zeros(4, dtype=torch.int32)
        named = {"out_ptr": out, "n": 4, "TWICE": True}
        met = run_without(omitted, most_together, steps, (1,), named)
        return out.tolist(), [part for part in met if part.kind == STEP]

    usual, met = left([])
    assert usual == [10, 11, 12, 13]
    assert {part.text for part in met} == set(REBINDINGS)
    assert {part.text: left([part])[0] for part in met} == REBINDINGS
