"""References that the tests of wrong steps ask."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import InputSource, input_sources

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
    return opened(folder, *body)[0]


def opened(folder: Path, *body: str) -> tuple[Oracle, tuple[InputSource, ...]]:
    """The same with the input sets that it is called with."""
    path = folder / "problem.py"
    path.write_text(_PROBLEM.format(body="".join(f"        {line}\n" for line in body)))
    problem = load_problem(ProblemSpec(path=str(path)))
    oracle = Oracle(problem, "cpu", nullcontext)
    sources = input_sources(problem, oracle.module, "cpu", nullcontext, may_shrink=False)
    return oracle, sources


def file_of(oracle: Oracle) -> str:
    return type(oracle.module).forward.__code__.co_filename
