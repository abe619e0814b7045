"""Problems are built and traced without contents, whatever their sizes and their code."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.estimates.library import library_for
from kernelagent.tools.estimates.main import estimates_of
from kernelagent.tools.estimates.modules import operations_of
from kernelagent.tools.virtual.cost.ceilings import ceilings_for

HUGE = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(65536, 65536)
        self.dropout = nn.Dropout(0.5)
    def forward(self, x):
        return self.dropout(self.linear(x))
def get_inputs():
    return [torch.rand(131072, 65536, device="cuda").cuda()]
"""
VALUES = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        rates = [r.item() for r in torch.linspace(0, 1, 4)]
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in rates)
        self.state = torch.zeros(4, 8)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x) + self.state
        return x
def get_inputs():
    return [torch.rand(4, 8)]
"""
BRANCH = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x
def get_inputs():
    return [torch.rand(4, 8)]
"""


def problem(folder: Path, text: str) -> ProblemSpec:
    path = folder / "problem.py"
    path.write_text(text, encoding="utf-8")
    return ProblemSpec(path=str(path))


def test_a_module_of_sixty_gigabytes_is_estimated_without_allocating_it(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result, _ = estimates_of(problem(tmp_path, HUGE), library_for(ceilings_for("h100")))
    assert [item.mode for item in result] == ["as built", "eval"]
    assert result[0].eager.us.value > 1e6
    assert result[0].least_us <= result[0].eager.us.value
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20


def test_a_constructor_that_asks_for_values_is_built_with_real_small_tensors(
    tmp_path: Path,
) -> None:
    assert [o.name for o in operations_of(problem(tmp_path, VALUES))] == ["addmm", "add"] * 4


def test_a_forward_that_branches_on_values_is_a_problem_error(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="does not run on tensors without contents"):
        operations_of(problem(tmp_path, BRANCH))
