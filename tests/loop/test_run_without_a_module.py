"""A whole run, with a scripted model and a recorded judge, that comes to nothing better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import ExitStatus
from kernelagent.domain.evaluation import Evaluation, Stage
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.run import optimize
from tests.evaluations import DEVICE, FACTS, Recorded, Scripted, rejected, reply_with

PROBLEM = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x


def get_inputs():
    return [torch.randn(4)]
"""


@dataclass
class RecordedJudges:
    """Judges that give recorded verdicts; itself the only one of them."""

    recorded: Recorded
    here = True
    facts = FACTS
    device = DEVICE
    sandbox = "none"

    @contextmanager
    def open(
        self, settings: JudgeSettings, say: Callable[[str, str], None]
    ) -> Iterator[RecordedJudges]:
        yield self

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        return self.recorded.evaluate(candidate, on_stage)

    def evaluate_final(
        self, candidate: Candidate, on_stage: Callable[[Stage], None], seconds: float | None = None
    ) -> Evaluation:
        return self.recorded.evaluate(candidate, on_stage)

    def widen(self, candidate: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        return evaluation

    def try_emitted(self, file: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        return evaluation


@pytest.mark.parametrize("reply", ["No.", reply_with(0)], ids=["no code", "a rejected candidate"])
def test_nothing_better_is_exit_status_one_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.py").write_text(PROBLEM, encoding="utf-8")
    result = optimize(
        ProblemSpec(path="scale.py"),
        RunConfig(device="virtual", model=("scripted",), turns=1),
        ready={"scripted": Scripted([reply])},
        judges=RecordedJudges(Recorded([rejected()])),
    )
    assert (result.outcome, result.exit_status) == ("none", ExitStatus.NOT_FOUND)
    assert result.path is None
    assert [path.name for path in tmp_path.glob("*.py")] == ["scale.py"]
