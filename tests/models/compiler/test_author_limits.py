"""The built-in policy's author may take what the judge may, and goes first when memory ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.domain.problem import InputSet, ProblemFacts, ProblemSpec
from kernelagent.models import ModelSettings
from kernelagent.models.compiler_model import AuthorProcess, CompilerModel
from tests.process_limits import LIMIT, problem_in, require_limits

pytestmark = pytest.mark.long


@pytest.fixture
def problem(tmp_path: Path) -> ProblemSpec:
    return problem_in(tmp_path)


def test_the_author_has_the_limits_of_the_judge(tmp_path: Path, problem: ProblemSpec) -> None:
    sets = (InputSet("default", (), "(x: float32[64, 64])"),)
    facts = ProblemFacts(
        "relu", "", "Model", "init", "()", sets, (), (), "eval", "0" * 64, "tf32 off"
    )
    settings = ModelSettings(problem, facts, "sm_90", "virtual", memory_limit=LIMIT)
    author = AuthorProcess()
    try:
        assert author.ask(CompilerModel(settings).opening).kind == "ready"
    finally:
        author.close()
    require_limits(tmp_path)
