"""The main job on a real GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.judge import Judge

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CASSETTE = Path(__file__).resolve().parents[1] / "cassettes" / "rms_norm_residual.jsonl"


@pytest.fixture(scope="module")
def judge() -> Judge:
    spec = ProblemSpec(path=str(EXAMPLES / "rms_norm_residual.py"))
    return Judge(JudgeSettings(spec, device="cuda"))


def last_reply() -> str:
    from kernelagent.domain.candidate import Candidate, parse_reply
    from kernelagent.models.replay import ReplayModel

    parsed = parse_reply(ReplayModel.from_path(str(CASSETTE)).replies[-1].text)
    assert isinstance(parsed, Candidate)
    return parsed.source


def test_an_honest_kernel_is_accepted_and_timed(judge: Judge) -> None:
    result = judge.evaluate(last_reply(), "verdict", lambda _: None)
    assert result.accepted, result.reason
    assert result.timing is not None
    assert result.timing.speedup_eager.low <= result.timing.speedup_eager.value
    assert result.estimate is None


def test_pure_torch_is_no_kernel(judge: Judge) -> None:
    reference = (EXAMPLES / "rms_norm_residual.py").read_text(encoding="utf-8")
    source = reference.replace("class Model(", "class ModelNew(")
    result = judge.evaluate(source, "verdict", lambda _: None)
    assert result.reason is not None
    assert result.reason.code == "no_kernel"
