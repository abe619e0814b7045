"""States that the judge cannot exchange are refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.state_entries import require_same_entries, require_tensors

EXTRA = """\
import torch


class Model(torch.nn.Module):
    def get_extra_state(self):
        return {"count": 3}

    def set_extra_state(self, state):
        pass

    def forward(self, x):
        return x


def get_inputs():
    return [torch.ones(3)]
"""


class Fills(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.table = torch.ones(3)
        return x + self.table


def test_an_extra_state_that_is_no_tensor_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "extra.py"
    path.write_text(EXTRA, encoding="utf-8")
    problem = load_problem(ProblemSpec(path=str(path)))
    with pytest.raises(ProblemError, match=r"_extra_state \(dict\)"):
        problem.build()


def test_a_buffer_that_a_forward_fills_is_refused_with_its_name() -> None:
    module = Fills()
    before = [*module.state_dict()]
    require_same_entries(module, before, "Fills")
    module(torch.ones(3))
    with pytest.raises(ProblemError, match="adds table"):
        require_same_entries(module, before, "Fills")


def test_tensors_are_a_state() -> None:
    require_tensors(torch.nn.BatchNorm1d(4), "BatchNorm1d")
