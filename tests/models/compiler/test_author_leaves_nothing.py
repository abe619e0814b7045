"""What the built-in policy's author leaves in the system's folder for temporary files: nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from kernelagent.domain.history import History, TurnRequest
from kernelagent.domain.problem import InputSet, ProblemFacts, ProblemSpec
from kernelagent.models import ModelQuery, ModelSettings, Reply
from kernelagent.models.compiler_model import CompilerModel

pytestmark = pytest.mark.long

PROBLEM = """
import tempfile
from pathlib import Path

import torch

Path(tempfile.gettempdir(), "torchinductor_somebody").mkdir(exist_ok=True)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def get_inputs():
    return [torch.randn(64, 64)]
"""


def test_what_inductor_and_the_users_module_leave_there_goes_with_the_author(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM, encoding="utf-8")
    sets = (InputSet("default", (), "(x: float32[64, 64])"),)
    facts = ProblemFacts(
        "relu", "", "Model", "init", "()", sets, (), (), "eval", "0" * 64, "tf32 off"
    )
    model = CompilerModel(ModelSettings(ProblemSpec(path=str(path)), facts, "sm_90", "virtual"))
    try:
        reply = model.reply(
            ModelQuery(1, TurnRequest("write", "compiler"), (), History()), lambda _: None
        )
        assert isinstance(reply, Reply)
        assert "triton.jit" in reply.text
    finally:
        model.close()
    assert list(temporary.iterdir()) == []
