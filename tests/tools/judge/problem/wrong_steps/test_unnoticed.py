"""Steps of a reference that no call has shown are told with their line, and found again by calls that show them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.wrong_steps.followed import look_at, with_wrong_step
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
    assert {wrong.place for wrong in steps.left} == {
        f"line {FIRST_LINE} `torch.maximum(x, -x)`",
        f"line {FIRST_LINE} `torch.maximum(x, -x) + 1e-9 * x`",
    }
    steps.note(oracle, ((X,), {}))
    assert [wrong.place for wrong in steps.left] == [
        f"line {FIRST_LINE} `torch.maximum(x, -x) + 1e-9 * x`"
    ]


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


def test_what_is_written_into_a_buffer_of_zeros_depends_on_data(tmp_path: Path) -> None:
    oracle = reference(
        tmp_path, "y = torch.zeros(x.shape)", "y[:] = x", "return torch.clamp(y, -3.0, 0.5)"
    )
    told = asked(oracle, X).sentence()
    assert told is not None
    assert "without its lower bound" in told


@pytest.mark.parametrize(
    "body",
    [
        ("while (x > 1).any():", "    x = torch.where(x > 1, x / 2, x)", "return x"),
        (
            "kept = 0",
            "for i in range(int(torch.clamp(x * 1e12, 0, 50).max())):",
            "    kept += i",
            "return x + kept",
        ),
        ("return x.new_zeros(int(torch.clamp(x * 1e12, 1, 64).max()) * 4096)",),
        ("return torch.arange(torch.clamp(x * 1e12, 1, 64).max())",),
    ],
    ids=["rounds", "a loop of Python's own", "memory", "memory by a tensor"],
)
def test_steps_before_the_host_reads_values_are_never_done_wrong(
    tmp_path: Path, body: tuple[str, ...]
) -> None:
    steps = asked(reference(tmp_path, *body), 8 * X)
    assert steps.calls == 1
    assert {wrong.change.words for wrong in steps.left} <= {"answered by its first operand"}
    assert all("x + kept" in wrong.place for wrong in steps.left)


def test_a_step_that_is_repeated_until_something_holds_ends_in_an_error(tmp_path: Path) -> None:
    oracle = reference(tmp_path, *["x = torch.relu(x)"] * 3, "return x")
    wrong = look_at(file_of(oracle), lambda: oracle.eager(((X,), {}))).wrong[0]
    ever = replace(wrong, steps=-200)
    with pytest.raises(ProblemError, match="TooManySteps"):
        with_wrong_step(ever, file_of(oracle), lambda: oracle.eager(((X,), {})))


def test_what_a_forward_sets_is_put_back_where_a_wrong_step_ends_it(tmp_path: Path) -> None:
    oracle = reference(
        tmp_path,
        "torch.set_default_dtype(torch.float64)",
        "kept, _ = torch.get_rng_state(), torch.manual_seed(7)",
        "at = torch.clamp((90 * x).long(), 0, 7)",
        "y = torch.arange(8.0)[at].float()",
        "torch.set_rng_state(kept)",
        "torch.set_default_dtype(torch.float32)",
        "return y",
    )
    before = torch.get_rng_state()
    asked(oracle, X)
    assert torch.get_default_dtype() == torch.float32
    assert torch.equal(torch.get_rng_state(), before)


def test_what_a_module_of_torchs_does_is_told_by_its_name(tmp_path: Path) -> None:
    oracle = reference(tmp_path, "return torch.nn.Hardtanh(-9.0, 9.0)(x)")
    told = asked(oracle, X).sentence()
    assert told is not None
    assert "`hardtanh` in `torch.nn.Hardtanh(-9.0, 9.0)(x)` left out" in told


def test_numbers_that_change_next_to_nothing_are_not_told(tmp_path: Path) -> None:
    assert asked(reference(tmp_path, "return x * 1.0 + 1e-9"), X).sentence() is None
    told = asked(reference(tmp_path, "return torch.maximum(x * 0.5, x)"), X.abs()).sentence()
    assert told is not None
    assert "answered by its second operand" in told


def test_without_a_text_and_without_time_nothing_is_told(tmp_path: Path) -> None:
    oracle = reference(tmp_path, "return torch.clamp(x, -3.0, 0.5)")
    steps = UnnoticedSteps(None, 60.0)
    steps.note(oracle, ((X,), {}))
    assert steps.sentence() is None
    ticks = count()
    spent = UnnoticedSteps(file_of(oracle), 2.5, lambda: float(next(ticks)))
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
    assert not differs((row.half(), 3, math.nan), (row.half(), 3, math.nan))
    assert differs(3, 4)
    assert not differs(row.numpy(), row.numpy())
    assert differs(torch.complex(row, row), torch.complex(row, -row))
