"""Steps of a reference that no call has shown are told with their line, and found again by calls that show them."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import torch

from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.wrong_steps.noticed import differs
from kernelagent.tools.judge.problem.wrong_steps.unnoticed import UnnoticedSteps
from tests.tools.judge.problem.wrong_steps.references import FIRST_LINE, file_of, reference

X = torch.linspace(-1.0, 1.0, 4 * 12 * 6).reshape(4, 12, 6)


def asked(oracle: Oracle, *inputs: torch.Tensor, seconds: float = 60.0) -> UnnoticedSteps:
    steps = UnnoticedSteps(file_of(oracle), seconds)
    for x in inputs:
        steps.note(oracle, ((x,), {}))
    return steps


def test_a_bound_that_no_call_comes_near_is_told_with_its_line(tmp_path: Path) -> None:
    oracle = reference(tmp_path, "return torch.clamp(x, -3.0, 0.5)")
    told = asked(oracle, X).sentence()
    assert told is not None
    assert f"line {FIRST_LINE} `torch.clamp(x, -3.0, 0.5)` without its lower bound" in told
    assert "upper" not in told
    assert asked(oracle, X, 5 * X).sentence() is None


def test_what_one_call_shows_is_not_asked_again(tmp_path: Path) -> None:
    oracle = reference(tmp_path, "return torch.maximum(x, -x) + 1e-9 * x")
    steps = asked(oracle, X.abs())
    assert {wrong.change.words for wrong in steps.left} == {"answered by its first operand"}
    assert {wrong.place.text for wrong in steps.left} == {
        "torch.maximum(x, -x)",
        "torch.maximum(x, -x) + 1e-9 * x",
    }
    steps.note(oracle, ((X,), {}))
    assert [wrong.place.text for wrong in steps.left] == ["torch.maximum(x, -x) + 1e-9 * x"]


def test_the_late_rounds_of_a_loop_are_asked_of_by_themselves(tmp_path: Path) -> None:
    oracle = reference(
        tmp_path,
        "for _ in range(10):",
        "    x = torch.where(x > 1, x / 2, x)",
        "return x",
    )
    told = asked(oracle, 8 * X).sentence()
    assert told is not None
    assert "always answered as where its condition fails from round 6 of 10 on" in told
    told = asked(oracle, 100 * X).sentence()
    assert told is not None
    assert "from round 9 of 10 on" in told
    assert "from round 6 of 10 on" not in told


def test_what_depends_on_sizes_alone_is_no_step(tmp_path: Path) -> None:
    oracle = reference(tmp_path, "at = torch.arange(x.shape[1]) >= 0", "return x[:, at]")
    assert asked(oracle, X).left == ()


def test_a_loop_that_never_ends_with_a_step_done_wrong_ends_in_an_error(tmp_path: Path) -> None:
    oracle = reference(
        tmp_path,
        "while (x > 1).any():",
        "    x = torch.where(x > 1, x / 2, x)",
        "return x",
    )
    assert asked(oracle, 8 * X).left is not None


def test_without_a_text_and_without_time_nothing_is_told(tmp_path: Path) -> None:
    oracle = reference(tmp_path, "return torch.clamp(x, -3.0, 0.5)")
    steps = UnnoticedSteps(None, 60.0)
    steps.note(oracle, ((X,), {}))
    assert steps.sentence() is None
    ticks = count()
    spent = UnnoticedSteps(file_of(oracle), 1.5, lambda: float(next(ticks)))
    spent.note(oracle, ((X,), {}))
    assert spent.is_spent
    assert spent.sentence() is None


def test_what_the_reference_refuses_shows_nothing(tmp_path: Path) -> None:
    oracle = reference(tmp_path, "assert x.dim() == 3", "return torch.relu(x)")
    assert asked(oracle, X[0]).calls == 0


def test_answers_differ_where_a_judging_would_see_it() -> None:
    row = torch.tensor([[1.0, 2.0, float("nan"), float("inf")], [1e-9, 2e-9, 1e-9, 3e-9]])
    assert not differs(row, row.clone())
    assert not differs(row, row * (1 + 1e-5))
    assert differs(row, row.nan_to_num(posinf=0.0))
    assert differs(row, torch.cat([row[:1], 2 * row[1:]]))
    assert differs(row, row[:, :3])
    assert differs(torch.tensor([3]), torch.tensor([4]))
    assert not differs((row.half(), 3), (row.half(), 3))
    assert differs(torch.complex(row, row), torch.complex(row, -row))
