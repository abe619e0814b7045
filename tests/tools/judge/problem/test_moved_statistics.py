"""What a reference leaves in statistics that have come close: eager leaves them as they were, and another right formula may not."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.verify.compare.compare import Expected, compare
from kernelagent.tools.judge.verify.side_effects import left_alone

pytestmark = pytest.mark.long

MODULE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("most", torch.ones(()))
        self.register_buffer("table", torch.ones(3))

    def forward(self, x):
        with torch.no_grad():
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.most.copy_(torch.maximum(self.most, x.amax()))
        return x + self.mean * self.table


def get_inputs():
    return [torch.rand(7, 3)]
"""


def test_a_mean_that_moves_by_less_than_its_last_place_is_known_in_float64(tmp_path: Path) -> None:
    file = tmp_path / "problem.py"
    file.write_text(MODULE)
    oracle = Oracle(load_problem(ProblemSpec(path=str(file))), "cpu", nullcontext)
    x = torch.rand(7, 3, generator=torch.Generator().manual_seed(3)) / 3
    for _ in range(400):
        left = oracle.expect(((x,), {})).state
        if all(torch.equal(left[name], oracle.weights[name]) for name in left):
            break
        oracle.use_weights(left)
    expected = oracle.expect(((x,), {}))
    assert torch.equal(expected.state["mean"], oracle.weights["mean"])
    assert set(expected.state64) == {"mean"}
    wanted, exact = expected.state["mean"], expected.state64["mean"]
    assert not left_alone(oracle.weights["mean"], wanted, exact)
    other = torch.nextafter(wanted, exact.float() + 1)
    assert compare(other, Expected(wanted, exact, {}), input_set="", probe="").passed
