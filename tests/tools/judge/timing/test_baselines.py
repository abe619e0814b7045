"""A baseline runs in the user's own folder, although its process begins in a scratch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import torch

from kernelagent.domain.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.timing.clock import BaselineTimed, Side
from kernelagent.tools.sandbox.spawn import ForkServer

PROBLEM = """
from pathlib import Path

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = float(Path("factor.txt").read_text())

    def forward(self, x):
        return x * self.factor


def get_inputs():
    return [torch.randn(64)]
"""


@pytest.fixture(scope="module")
def context(
    tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer
) -> Iterator[JudgeContext]:
    """Opened by a relative path, as `kernelagent optimize models/problem.py` does it."""
    folder = tmp_path_factory.mktemp("users")
    (folder / "models").mkdir()
    (folder / "models" / "problem.py").write_text(PROBLEM, encoding="utf-8")
    (folder / "factor.txt").write_text("2.0", encoding="ascii")
    settings = JudgeSettings(ProblemSpec(path="models/problem.py"), device="virtual")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        opened = JudgeContext.open(settings, fork_server)
    yield opened
    opened.close()


def test_a_problem_given_by_a_relative_path_is_timed_in_the_users_folder(
    context: JudgeContext,
) -> None:
    with ExitStack() as stack:
        side = Side(BaselineTimed.start(context, stack, None))
        x = torch.ones(64)
        side.prepare([((x,), {}), ((x,), {})])
        assert side.per_call_us() > 0
