"""The end of a run: what is judged again, and how long all of it may take. The clock stands still but for judgings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import (
    NO_TIME_TO_ESTIMATE,
    Disclosure,
    Evaluation,
    Reason,
    Stage,
)
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.winner import Ending, FinalStage
from kernelagent.storage.run_log import EventLog, RunFolder
from kernelagent.storage.run_state import RunState
from tests.evaluations import DEVICE, FACTS, accepted, history_of, rejected

JUDGING_S = 100.0


@dataclass
class SlowJudge:
    """Takes `takes` seconds of a clock for each candidate, or what it is given, and finds it wrong at the end."""

    takes: float
    verdict: Evaluation = field(default_factory=lambda: rejected("data_race"))
    now: float = 0.0
    asked: list[int] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    as_emitted: Evaluation | None = None
    """What it says of emitted files; None: they go as their candidates do."""
    facts = FACTS
    device = DEVICE
    sandbox = "none"

    def evaluate_final(
        self, candidate: Candidate, on_stage: Callable[[Stage], None], seconds: float | None = None
    ) -> Evaluation:
        assert seconds is not None
        self.asked.append(int(candidate.source.split("number = ")[1]))
        self.now += min(self.takes, seconds)
        return self.verdict

    def try_emitted(self, file: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        self.files.append(file.source)
        return evaluation if self.as_emitted is None else self.as_emitted

    def clock(self) -> float:
        return self.now


def ended(
    folder: Path, judge: SlowJudge, turns: Sequence[Evaluation], *, interrupted: bool = False
) -> Ending:
    """Without a module: nothing that is judged again holds, or the run was interrupted."""
    run = RunFolder.create(folder / "runs", "toy", now=0.0)
    stage = FinalStage(
        problem=ProblemSpec(path="toy.py"),
        config=RunConfig(device="virtual", judging_seconds=JUDGING_S, envelope_seconds=0.0),
        folder=run,
        log=EventLog(run),
        out=folder / "out.py",
        state=RunState(),
        judge=judge,
        exclusive_judge=judge,
        warn_once=lambda _: None,
        clock=judge.clock,
    )
    return stage.emit_best(history_of(*turns), "the budget is spent", interrupted=interrupted)


FASTER = [accepted(ratio) for ratio in (3.0, 2.5, 2.0, 1.9)]


@pytest.mark.parametrize(("takes", "tried"), [(5, 3), (60, 2), (90, 2), (150, 1), (900, 1)])
def test_all_that_are_judged_again_take_no_longer_than_one_may(
    tmp_path: Path, takes: float, tried: int
) -> None:
    judge = SlowJudge(takes)
    end = ended(tmp_path, judge, FASTER)
    assert judge.asked == [0, 1, 2][:tried]
    assert judge.now <= 2 * JUDGING_S
    assert end.outcome == "none"
    late = "judging the next one again would take too long"
    assert (late in end.why) == (tried < 3)


def test_the_first_has_the_time_of_a_last_judging_whole(tmp_path: Path) -> None:
    judge = SlowJudge(900)
    ended(tmp_path, judge, FASTER)
    assert judge.now == 2 * JUDGING_S


def test_a_candidate_that_was_slower_or_refused_is_not_judged_again(tmp_path: Path) -> None:
    judge = SlowJudge(1)
    end = ended(tmp_path, judge, [rejected(), accepted(0.5), accepted(2.0), accepted(0.4)])
    assert judge.asked == [2]
    assert "turn 2, judged again: data_race" in end.why


def test_where_all_are_slower_nothing_is_judged_again_and_the_reason_is_told(
    tmp_path: Path,
) -> None:
    judge = SlowJudge(1)
    end = ended(tmp_path, judge, [accepted(0.5), accepted(0.4)])
    assert judge.asked == []
    assert "turn 0: by its estimate it is slower than the eager module" in end.why


def test_what_ranks_below_one_that_cannot_be_told_from_eager_is_not_judged_again(
    tmp_path: Path,
) -> None:
    judge = SlowJudge(1, verdict=on_inputs(accepted(1.05)))
    ended(tmp_path, judge, FASTER, interrupted=True)
    assert judge.asked == [0]


def on_inputs(verdict: Evaluation) -> Evaluation:
    """As of a real judging, from which a file can be written."""
    sets = [{"name": "default", "args": [{"dtype": "float32", "shape": [4, 8]}], "kwargs": {}}]
    return replace(verdict, envelope={"input_sets": sets})


def test_a_winner_whose_emitted_file_goes_otherwise_is_passed_over(tmp_path: Path) -> None:
    judge = SlowJudge(1, verdict=on_inputs(accepted(2.0)), as_emitted=rejected("wrong_output"))
    end = ended(tmp_path, judge, FASTER)
    assert judge.asked == [0, 1, 2]
    assert len(judge.files) == 3
    assert all("def optimized(" in text for text in judge.files)
    assert end.outcome == "none"
    assert "turn 2, judged again: wrong_output" in end.why
    assert not (tmp_path / "out.py").exists()


def test_a_winner_that_is_slower_when_judged_again_is_not_tried_as_a_file(tmp_path: Path) -> None:
    judge = SlowJudge(1, verdict=on_inputs(accepted(0.5)))
    ended(tmp_path, judge, FASTER)
    assert judge.files == []


def test_a_module_that_is_rather_slower_is_called_so(tmp_path: Path) -> None:
    judge = SlowJudge(1, verdict=on_inputs(accepted(0.95)))
    end = ended(tmp_path, judge, FASTER, interrupted=True)
    assert judge.asked == [0]
    assert "0.95 of its speed, which is rather slower, between" in end.why


def without_estimate(code: str) -> Evaluation:
    """Accepted, and why it has no estimate."""
    why = Disclosure(code, "no estimate: time limit reached")
    return replace(on_inputs(accepted(2.0)), estimate=None, disclosures=(why,))


def test_a_machine_too_busy_to_count_its_work_again_takes_no_winner_its_estimate(
    tmp_path: Path,
) -> None:
    judge = SlowJudge(1, verdict=without_estimate(NO_TIME_TO_ESTIMATE))
    end = ended(tmp_path, judge, FASTER)
    assert judge.asked == [0]
    assert end.outcome == "better"
    assert end.winner is not None
    assert end.winner.estimate == FASTER[0].estimate
    (told,) = end.winner.disclosures
    assert told.code == "estimated_before"
    assert told.message.endswith("judged again there was none (time limit reached)")


def test_one_whose_estimate_is_refused_loses_it_and_the_next_is_judged_again(
    tmp_path: Path,
) -> None:
    judge = SlowJudge(1, verdict=without_estimate("not_estimated"))
    end = ended(tmp_path, judge, FASTER, interrupted=True)
    assert judge.asked == [0, 1, 2]
    assert "there is no estimate" in end.why


def test_where_nothing_could_be_judged_the_last_words_say_why(tmp_path: Path) -> None:
    late = replace(
        rejected("unverifiable"),
        verdict="error",
        reason=Reason("unverifiable", "time limit reached"),
    )
    end = ended(tmp_path, SlowJudge(1), [late])
    assert "the last could not be judged: time limit reached" in end.why
    assert "could not be judged" not in ended(tmp_path / "other", SlowJudge(1), [rejected()]).why
