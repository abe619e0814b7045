"""The main job on a real GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.problem import ProblemSpec
from kernelagent.tools.judge.judge import Judge
from kernelagent.tools.settings import JudgeSettings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CASSETTE = Path(__file__).resolve().parents[1] / "cassettes" / "rms_norm_residual.jsonl"


@pytest.fixture(scope="module")
def judge() -> Judge:
    spec = ProblemSpec(path=str(EXAMPLES / "rms_norm_residual.py"))
    return Judge(JudgeSettings(spec, device="cuda"))


def last_reply() -> str:
    from kernelagent.candidate import Candidate, parse_reply
    from kernelagent.models.replay import ReplayModel

    parsed = parse_reply(ReplayModel.from_path(str(CASSETTE)).replies[-1].text)
    assert isinstance(parsed, Candidate)
    return parsed.source


def test_an_honest_kernel_is_accepted_and_timed(judge: Judge) -> None:
    found = judge.evaluate(last_reply(), "turn", lambda _: None)
    assert found.accepted, found.reason
    assert found.timing is not None
    assert found.timing.speedup_eager.low <= found.timing.speedup_eager.value
    assert found.estimate is None


def test_pure_torch_is_no_kernel(judge: Judge) -> None:
    reference = (EXAMPLES / "rms_norm_residual.py").read_text(encoding="utf-8")
    source = reference.replace("class Model(", "class ModelNew(")
    found = judge.evaluate(source, "turn", lambda _: None)
    assert found.reason is not None
    assert found.reason.code == "no_kernel"
