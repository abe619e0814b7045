"""The recorded conversations: played again, each turn ends as it did when it was recorded."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import ExitStatus
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.run import RunResult, optimize
from kernelagent.storage.cassette import of_run, recording
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.run_state import fold
from kernelagent.strategies import BUILT_IN
from tests.judges import JudgesHere

TESTS = Path(__file__).resolve().parent
FAST = "layer_norm_gelu"
CASSETTES = sorted((TESTS / "cassettes").glob("*.jsonl"))
EXAMPLES = TESTS.parent / "examples"
SLOWER_THAN_EAGER = {"swiglu", "layer_norm_gelu"}
PLAYED = [pytest.param(path, id=path.stem) for path in CASSETTES]


def played(
    cassette: Path, folder: Path, judges: JudgesHere, strategy: str | None = None
) -> RunResult:
    config = RunConfig(
        device="virtual",
        model=(f"replay:{cassette}",),
        runs=str(folder / "runs"),
        out=str(folder / "optimized.py"),
        strategy=strategy,
    )
    problem = ProblemSpec(path=str(EXAMPLES / f"{cassette.stem}.py"))
    return optimize(problem, config, judges=judges)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("cassette", PLAYED)
def test_each_turn_ends_as_it_was_recorded_and_the_last_is_the_best(cassette, tmp_path, judges):
    result = played(cassette, tmp_path, judges)
    reported = [reply.verdict for reply in recording(str(cassette))]
    assert [reply.verdict for reply in of_run(RunFolder(result.run))] == reported
    assert reported[0] == "compile_error"
    assert reported[1] in {"data_race", "out_of_bounds", "wrong_output"}
    scores = [turn.score for turn in result.state.history.turns if turn.accepted]
    assert scores == sorted(set(scores)), "every accepted turn is better than the one before"
    assert (scores[0] < 1) == (cassette.stem in SLOWER_THAN_EAGER)
    assert result.outcome == "better"
    assert result.state.winner_turn == len(reported) - 1
    assert (tmp_path / "optimized.py").is_file()


ENDINGS = {"auto": ("the strategy asks for nothing more",)}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", BUILT_IN)
def test_every_strategy_ends_in_good_order_on_a_recorded_conversation(strategy, tmp_path, judges):
    cassette = TESTS / "cassettes" / f"{FAST}.jsonl"
    result = played(cassette, tmp_path, judges, strategy)
    state = fold(read_events(RunFolder(result.run).log))
    reported = [reply.verdict for reply in recording(str(cassette))]
    # A recording that is too short ends the run, never as an error; `auto` sees that nothing is left to gain.
    assert (result.outcome, result.exit_status) == ("better", ExitStatus.OK)
    assert result.why in ENDINGS.get(strategy, (f"replay:{cassette} has nothing left to try",))
    assert len(state.history.turns) == len(reported)
    assert not state.history.pending
    accepted = {turn.index: turn.score for turn in state.history.turns if turn.accepted}
    assert state.winner_turn == max(accepted, key=accepted.__getitem__)
    assert "def optimized(" in result.path.read_text(encoding="utf-8")


@pytest.mark.parametrize("cassette", CASSETTES, ids=lambda path: path.stem)
def test_every_reply_is_a_few_words_and_one_new_candidate(cassette):
    replies = recording(str(cassette))
    assert len(replies) >= 4
    sources = [parse_reply(reply.text) for reply in replies]
    assert all(isinstance(source, Candidate) for source in sources)
    assert len(set(sources)) == len(sources)
    for reply in replies:
        words, fence, _ = reply.text.partition("```python\n")
        assert fence
        assert 20 <= len(words.split()) <= 150
        assert reply.text.count("```") == 2


@pytest.mark.parametrize("cassette", CASSETTES, ids=lambda path: path.stem)
def test_every_prompt_of_a_recording_holds_the_reply_before_it(cassette):
    replies = recording(str(cassette))
    for before, after in pairwise(replies):
        assert after.prompt is not None
        assert after.prompt[-2].content == before.text
