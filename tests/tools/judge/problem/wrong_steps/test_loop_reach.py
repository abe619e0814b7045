"""How many rounds later it shows what a round of a loop has changed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import torch

from kernelagent.tools.judge.problem.wrong_steps.loop_reach import LoopReach
from tests.tools.judge.problem.wrong_steps.references import file_of, reference

LEVEL = (
    "on = torch.zeros_like(x[:, 0], dtype=torch.bool)",
    "every = []",
    "for at in range(x.shape[1]):",
    "    on = (x[:, at] > 2) | (on & (x[:, at] > 1))",
    "    every.append(on)",
    "return torch.stack(every, 1)",
)
ALONE = ("return torch.stack([torch.relu(x[:, at]) for at in range(x.shape[1])], 1)",)
FORGOTTEN = 1.5 * torch.randn(4, 12, 6, generator=torch.Generator().manual_seed(0))
REMEMBERED = torch.cat([torch.tensor([3.0, 0.0]).repeat(3).expand(4, 1, 6), torch.full((4, 11, 6), 1.5)], 1)  # fmt: skip


def reach_of(folder: Path, text: tuple[str, ...], x: torch.Tensor) -> LoopReach:
    oracle = reference(folder, *text)
    reach = LoopReach(file_of(oracle), 60.0, below=Random(0).randrange)
    for _ in range(20):
        reach.note(oracle, ((x,), {}))
    return reach


def test_what_is_soon_forgotten_is_told(tmp_path: Path) -> None:
    told = reach_of(tmp_path, LEVEL, FORGOTTEN).sentence()
    assert told is not None
    assert "line 9 (of 12 rounds)" in told


def test_of_what_is_remembered_to_the_end_nothing_is_told(tmp_path: Path) -> None:
    reach = reach_of(tmp_path, LEVEL, REMEMBERED)
    assert reach.sentence() is None
    assert reach.is_known


def test_rounds_that_hand_nothing_on_are_not_told(tmp_path: Path) -> None:
    reach = reach_of(tmp_path, ALONE, FORGOTTEN)
    assert reach.sentence() is None
    assert reach.is_known


@pytest.mark.parametrize(("x", "worth"), [(REMEMBERED, True), (FORGOTTEN, False)])
def test_a_call_that_reaches_further_is_worth_making(
    tmp_path: Path, x: torch.Tensor, worth: bool
) -> None:
    reach = reach_of(tmp_path, LEVEL, FORGOTTEN)
    oracle = reference(tmp_path, *LEVEL)
    other = LoopReach(file_of(oracle), 60.0, below=Random(1).randrange)
    reached = [other.of_call(oracle, ((x,), {})) for _ in range(20)]
    assert any(map(reach.is_further, reached)) == worth
