"""The recorded conversations: each reply is what the turn after it says it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.candidate import Candidate, parse_reply
from kernelagent.evaluation import Evaluation
from kernelagent.models.replay import ReplayModel
from kernelagent.problem import ProblemSpec
from kernelagent.tools.judge_client import JudgeProcess
from kernelagent.tools.settings import JudgeSettings

TESTS = Path(__file__).resolve().parent
CASSETTES = sorted((TESTS / "cassettes").glob("*.jsonl"))
EXAMPLES = TESTS.parent / "examples"
REFUSED_SECOND = {
    "rms_norm_residual": {"data_race", "out_of_bounds", "wrong_output"},
    "softmax_scale_mask": {"wrong_output"},
}
"""A tail mask that is too wide; which of its effects is seen first is up to the judge's order."""


def candidates(cassette: Path) -> list[Candidate]:
    parsed = [parse_reply(reply.text) for reply in ReplayModel.from_path(str(cassette)).replies]
    return [reply for reply in parsed if isinstance(reply, Candidate)]


@pytest.mark.parametrize("cassette", CASSETTES, ids=lambda path: path.stem)
def test_every_reply_holds_a_new_candidate(cassette):
    replies = ReplayModel.from_path(str(cassette)).replies
    assert len({candidate.sha256 for candidate in candidates(cassette)}) == len(replies) >= 4


@pytest.mark.parametrize("cassette", CASSETTES, ids=lambda path: path.stem)
def test_conversation_belongs_to_an_example(cassette):
    assert (EXAMPLES / f"{cassette.stem}.py").is_file()


@pytest.mark.long
@pytest.mark.parametrize("cassette", CASSETTES, ids=lambda path: path.stem)
def test_conversation_goes_from_a_compile_error_to_the_better_of_two(cassette):
    first, second, slow, better = judged(cassette)
    assert first.reason is not None
    assert first.reason.code == "compile_error"
    assert second.reason is not None
    assert second.reason.code in REFUSED_SECOND[cassette.stem]
    assert slow.accepted, slow.reason
    assert better.accepted, better.reason
    assert better.score > 1.2 * slow.score > 0


def judged(cassette: Path) -> list[Evaluation]:
    spec = ProblemSpec(path=str(EXAMPLES / f"{cassette.stem}.py"))
    with JudgeProcess(JudgeSettings(spec, device="virtual")) as judge:
        return [judge.evaluate(candidate, lambda _: None) for candidate in candidates(cassette)]
