from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import Evaluation, HeadroomFacts, Reason
from kernelagent.domain.events import (
    Evaluated,
    Logged,
    ProblemDescribed,
    ReplyReceived,
    RunStarted,
    TurnStarted,
)
from kernelagent.domain.history import Turn, TurnRequest
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.loop_state import Earlier
from kernelagent.loop.session import Session, too_slow_to_judge
from kernelagent.storage.run_log import EventLog, RunFolder, read_events
from kernelagent.storage.run_state import RunState, fold, to_continue
from kernelagent.strategies.sequential import Sequential
from tests.evaluations import DEVICE, FACTS, Recorded, Scripted, accepted, rejected, reply_with

NO_LIMIT = Budget(turns=None)
NEW = Earlier()
NO_OPTIONS = RunConfig()


def session_in(
    folder: RunFolder,
    evaluator: Recorded,
    model: Scripted,
    budget: Budget = NO_LIMIT,
    log: EventLog | None = None,
    earlier: Earlier = NEW,
    config: RunConfig = NO_OPTIONS,
) -> Session:
    log = log or EventLog(folder, clock=lambda: 1.0)
    return Session(
        facts=FACTS,
        device=DEVICE,
        strategy=Sequential((model.name,)),
        models={model.name: model},
        evaluator=evaluator,
        budget=budget,
        publish=log.publish,
        clock=lambda: 0.0,
        keep_prompt=folder.keep_prompt,
        keep_candidate=folder.keep_candidate,
        earlier=earlier,
        config=config,
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / ".kernelagent" / "runs", "toy", now=0.0)


def events_of(folder: RunFolder) -> list[Logged]:
    return list(read_events(folder.log))


VERDICTS = [rejected(), accepted(1.2), accepted(1.5), accepted(1.4)]
REPLIES = [reply_with(i) for i in range(4)]


def test_the_best_turn_wins_and_not_the_last(folder: RunFolder) -> None:
    session = session_in(folder, Recorded(VERDICTS), Scripted(REPLIES))
    why = session.run()
    assert "nothing left" in why
    assert session.history.best is not None
    assert session.history.best.index == 2


def test_the_log_alone_rebuilds_the_history(folder: RunFolder) -> None:
    session = session_in(folder, Recorded(VERDICTS), Scripted(REPLIES))
    session.run()
    assert fold(events_of(folder)).history == session.history


def test_a_void_reply_is_counted_answered_and_never_evaluated(folder: RunFolder) -> None:
    evaluator = Recorded(VERDICTS)
    model = Scripted(["I would rather not write code.", reply_with(1)])
    session = session_in(folder, evaluator, model)
    session.run()
    assert evaluator.asked == [1]
    assert session.spent.turns == 2
    last_prompt = model.seen[1].messages[-1].content
    assert "Your last reply was not evaluated" in last_prompt
    assert len(model.seen[1].messages) == len(model.seen[0].messages), "it has left the window"


def test_a_candidate_that_was_tried_before_is_not_evaluated_again(folder: RunFolder) -> None:
    evaluator = Recorded(VERDICTS)
    session = session_in(folder, evaluator, Scripted([reply_with(1), reply_with(1), reply_with(2)]))
    session.run()
    assert evaluator.asked == [1, 2]
    assert "the candidate of turn 0 again" in (session.history.turn(1).void or "")


def test_the_next_prompt_holds_the_feedback_of_the_turn_before(folder: RunFolder) -> None:
    model = Scripted(REPLIES)
    session_in(folder, Recorded(VERDICTS), model).run()
    assert "the last 3 columns are wrong" in model.seen[1].messages[-1].content
    assert model.seen[1].request.kind == "repair"
    assert model.seen[2].request.kind == "optimise"


@pytest.mark.parametrize(
    ("budget", "turns"),
    [
        (Budget(turns=2), 2),
        (Budget(turns=None, tokens=30), 2),
        (Budget(turns=None, dollars=0.01), 1),
    ],
    ids=["turns", "tokens", "dollars"],
)
def test_a_spent_budget_ends_the_run_in_good_order(
    folder: RunFolder, budget: Budget, turns: int
) -> None:
    session = session_in(folder, Recorded(VERDICTS), Scripted(REPLIES), budget)
    assert "budget" in session.run()
    assert len(session.history.turns) == turns


def head(folder: RunFolder) -> None:
    log = EventLog(folder, clock=lambda: 1.0)
    log.publish(RunStarted(folder.id, ProblemSpec(path="toy.py"), {}, {}))
    log.publish(ProblemDescribed(FACTS, DEVICE, "none"))
    log.close()


@pytest.mark.parametrize("lines", range(2, 22))
def test_a_run_cut_off_after_any_event_ends_as_if_nothing_had_happened(
    tmp_path: Path, lines: int
) -> None:
    whole = RunFolder.create(tmp_path / "a" / "runs", "toy", now=0.0)
    head(whole)
    session_in(whole, Recorded(VERDICTS), Scripted(REPLIES)).run()
    wanted = fold(events_of(whole)).history
    text = whole.log.read_text(encoding="utf-8").splitlines(keepends=True)

    cut = RunFolder.create(tmp_path / "b" / "runs", "toy", now=0.0)
    torn = text[lines][:40] if lines < len(text) else ""
    cut.log.write_text("".join(text[:lines]) + torn, encoding="utf-8")
    history, begun = to_continue(fold(read_events(cut.log)))
    model = Scripted(REPLIES)
    earlier = Earlier(RunState(history=history), begun, whole.kept_prompt)
    session = session_in(cut, Recorded(VERDICTS), model, earlier=earlier)
    session.run()
    assert session.history == wanted
    paid = [e.event.turn for e in events_of(cut) if isinstance(e.event, ReplyReceived)]
    assert sorted(paid) == sorted(set(paid)), "a logged reply was asked for again"


def test_every_event_survives_its_line(folder: RunFolder) -> None:
    head(folder)
    session_in(folder, Recorded(VERDICTS), Scripted(REPLIES)).run()
    events = events_of(folder)
    assert [e.sequence for e in events] == list(range(len(events)))
    assert {type(e.event) for e in events} >= {TurnStarted, ReplyReceived, Evaluated}


def test_a_machine_that_is_too_slow_to_judge_ends_the_run_with_what_to_do(
    folder: RunFolder,
) -> None:
    late = replace(
        rejected(),
        verdict="error",
        reason=Reason("unverifiable", "time limit reached", {"means": "time"}),
    )
    replies = [reply_with(n) for n in range(6)]
    session = session_in(folder, Recorded([late] * 6), Scripted(replies))
    why = session.run()
    assert len(session.history.turns) == 3
    assert "--judging-seconds" in why


def test_one_verdict_in_between_lets_it_go_on() -> None:
    late = replace(
        rejected(),
        verdict="error",
        reason=Reason("unverifiable", "time limit reached", {"means": "time"}),
    )
    request = TurnRequest("write", "a")
    turns = [
        Turn(n, request, evaluation=e) for n, e in enumerate([late, late, rejected(), late, late])
    ]
    assert too_slow_to_judge(turns, since=0) is None
    assert too_slow_to_judge([*turns, Turn(5, request, evaluation=late)], since=0) is not None
    assert too_slow_to_judge([*turns, Turn(5, request, evaluation=late)], since=4) is None


def with_left(share: float) -> Evaluation:
    return replace(
        accepted(2 - share),
        headroom=HeadroomFacts("default", 1 << 20, {}, 10.0, "dram", 1 - share, share),
    )


def test_a_run_ends_once_no_more_is_left_to_gain_than_the_user_asks_for(
    folder: RunFolder,
) -> None:
    verdicts = [rejected(), with_left(0.4), with_left(0.04), with_left(0.02)]
    config = replace(NO_OPTIONS, stop_at_headroom=0.05)
    session = session_in(folder, Recorded(verdicts), Scripted(REPLIES), config=config)
    why = session.run()
    assert "by the estimate at most 4% of the time of turn 2 is left to gain" in why
    assert len(session.history.turns) == 3


def test_a_turn_that_is_near_enough_ends_it_also_where_it_is_not_better_beyond_doubt(
    folder: RunFolder,
) -> None:
    first, near = with_left(0.06), with_left(0.0449)
    config = replace(NO_OPTIONS, stop_at_headroom=0.05)
    session = session_in(folder, Recorded([first, near]), Scripted(REPLIES), config=config)
    assert "at most 4.5% of the time of turn 1" in session.run()
    assert session.history.best is not None
    assert session.history.best.index == 0


def test_without_being_asked_to_it_goes_on_whatever_is_left(folder: RunFolder) -> None:
    verdicts = [with_left(0.04), with_left(0.02), with_left(0.01), with_left(0.0)]
    session = session_in(folder, Recorded(verdicts), Scripted(REPLIES))
    assert "nothing left to try" in session.run()
    assert len(session.history.turns) == 4
