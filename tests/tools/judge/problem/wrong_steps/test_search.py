"""Calls that show what none has shown are found; what the reference refuses is no call."""

from __future__ import annotations

from pathlib import Path

import torch

from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.problem.wrong_steps.search import showing_rounds
from kernelagent.tools.judge.problem.wrong_steps.shown import Shown
from tests.tools.judge.problem.wrong_steps.references import file_of, opened

X = torch.full((4, 12, 6), 0.5)


def found(folder: Path, *body: str) -> tuple[Shown, list[Trial]]:
    """What is left after calls with `X`, and the calls that were found."""
    oracle, sources = opened(folder, *body)
    shown = Shown.of(file_of(oracle), most_seconds=30.0)
    for _ in range(3):
        shown.note(oracle, ((X,), {}))
    rounds = showing_rounds(oracle.beside(), sources, shown, most_calls=4, most_seconds=3.0)
    return shown, [trial for made in rounds for trial in made.trials]


def test_a_call_is_found_that_shows_a_bound(tmp_path: Path) -> None:
    shown, trials = found(tmp_path, "return torch.where(x > 3.5, 1.0, x)")
    assert trials
    assert any(float(trial.arguments[0][0].max()) > 3.5 for trial in trials)
    assert all("always" not in wrong.change.words for wrong in shown.unnoticed.left)


def test_inputs_that_the_reference_refuses_are_no_calls(tmp_path: Path) -> None:
    shown, trials = found(
        tmp_path,
        "if not bool((x.abs() < 5).all()): raise ValueError('too large')",
        "return torch.clamp(x, -50.0, 1.5)",
    )
    assert trials
    assert all(float(trial.arguments[0][0].abs().max()) < 5 for trial in trials)
    assert not shown.failures
    (told,) = shown.disclosures()
    assert told.code == "steps_not_shown"
    assert "without its lower bound" in told.message
    assert "x.abs()" not in told.message
