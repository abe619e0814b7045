"""A baseline runs in the user's own folder, although its process begins in a scratch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.timing.clock import BaselineTimed, Side, prepare_sides
from kernelagent.tools.sandbox.spawn import ForkServer

pytestmark = pytest.mark.long

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
        prepare_sides([side], [((x,), {}), ((x,), {})])
        assert side.per_call_us() > 0


class Copies(TorchDispatchMode):
    """Counts how often a tensor's values are written out in order."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        self.count += func is torch.ops.aten.clone.default
        return func(*args, **(kwargs or {}))


def test_inputs_are_packed_once_however_many_sides_are_timed(context: JudgeContext) -> None:
    with ExitStack() as stack:
        sides = [Side(BaselineTimed.start(context, stack, None)) for _ in range(2)]
        # Columns: to send them in order is a copy, as it is for any tensor on a GPU.
        sets = [((torch.arange(64.0).reshape(8, 8).T * at,), {}) for at in (1, 2, 3)]
        with Copies() as copies:
            prepare_sides(sides, sets)
        assert copies.count == len(sets)
        digests = [digests_of(side) for side in sides]
        assert digests[0] == digests[1] != [0] * 4


def digests_of(side: Side) -> list[int]:
    """What four chained calls on the prepared inputs come to."""
    request = {"kind": "chain", "calls": 4, "secret": 7, "empty": False}
    digests: list[int] = side.timed.opened(side.timed.ask(request)).tolist()
    return digests
