"""What the built-in policy's author tries and drops is nobody's error: nothing of it is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.domain.problem import InputSet, ProblemFacts, ProblemSpec
from kernelagent.models import ModelSettings
from kernelagent.models.compiler_model import AuthorProcess, CompilerModel

pytestmark = pytest.mark.long

ONE_LENGTH = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("places", torch.randn(24, 8))

    def forward(self, x):
        return torch.relu(x + self.places).sum(-1)


def get_inputs():
    return [torch.randn(24, 8)]
"""


def test_sizes_that_a_module_refuses_leave_no_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "one_length.py"
    file.write_text(ONE_LENGTH, encoding="utf-8")
    sets = (InputSet("default", (), "(x: float32[24, 8])"),)
    facts = ProblemFacts(
        "one", "", "Model", "init", "()", sets, (), (), "eval", "0" * 64, "tf32 off"
    )
    model = CompilerModel(ModelSettings(ProblemSpec(str(file)), facts, "sm_90", "virtual"))
    author = AuthorProcess()
    try:
        assert author.ask(model.opening).kind == "ready"
        assert author.ask({"kind": "next", "history": []}).kind == "reply"
    finally:
        author.close()
    assert capfd.readouterr().err == ""
