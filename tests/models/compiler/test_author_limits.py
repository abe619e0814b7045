"""The built-in policy's author may take what the judge may, and goes first when memory ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.domain.problem import InputSet, ProblemFacts, ProblemSpec
from kernelagent.models import ModelSettings
from kernelagent.models.compiler_model import AuthorProcess, CompilerModel

SEES_ITS_LIMITS = """
import resource
from pathlib import Path

import torch

data = resource.getrlimit(resource.RLIMIT_DATA)[0]
first = Path("/proc/self/oom_score_adj").read_text()
Path({seen!r}).write_text(f"{{data}} {{first}}")


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def get_inputs():
    return [torch.randn(64, 64)]
"""


@pytest.fixture
def problem(tmp_path: Path) -> ProblemSpec:
    path = tmp_path / "problem.py"
    path.write_text(SEES_ITS_LIMITS.format(seen=str(tmp_path / "seen")), encoding="utf-8")
    return ProblemSpec(path=str(path))


def require_limits(tmp_path: Path) -> None:
    data, first_to_go = map(int, (tmp_path / "seen").read_text().split())
    assert 5 * 10**9 <= data < 10 * 10**9, "five beyond what the process had already"
    assert first_to_go >= 700


def test_the_author_has_the_limits_of_the_judge(tmp_path: Path, problem: ProblemSpec) -> None:
    sets = (InputSet("default", (), "(x: float32[64, 64])"),)
    facts = ProblemFacts(
        "relu", "", "Model", "init", "()", sets, (), (), "eval", "0" * 64, "tf32 off"
    )
    settings = ModelSettings(problem, facts, "sm_90", "virtual", memory_limit="5G")
    author = AuthorProcess()
    try:
        assert author.ask(CompilerModel(settings).opening).kind == "ready"
    finally:
        author.close()
    require_limits(tmp_path)
