"""References that the tests of wrong steps ask."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle

_PROBLEM = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
{body}

def get_inputs():
    return [torch.randn(4, 12, 6)]


def get_init_inputs():
    return []
"""
FIRST_LINE = 6
"""Of the forward's body."""


def reference(folder: Path, *body: str) -> Oracle:
    """The reference whose forward, of `x`, has these lines."""
    path = folder / "problem.py"
    path.write_text(_PROBLEM.format(body="".join(f"        {line}\n" for line in body)))
    return Oracle(load_problem(ProblemSpec(path=str(path))), "cpu", nullcontext)


def file_of(oracle: Oracle) -> str:
    return type(oracle.module).forward.__code__.co_filename
