from __future__ import annotations

from dataclasses import replace

import pytest

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.events import (
    Evaluated,
    Event,
    Remarked,
    ReplyReceived,
    TurnStarted,
    TurnVoid,
)
from kernelagent.domain.history import History, TurnRequest
from kernelagent.models import ModelQuery
from kernelagent.prompts.repeats import normal_form
from kernelagent.strategies import BUILT_IN
from kernelagent.suite.compare.families import FAMILIES, SimulatedRuns, parse_strategy, problems_of
from kernelagent.suite.compare.simulated import (
    DEVICE,
    Point,
    SimulatedJudge,
    SimulatedProblem,
    SimulatedWriter,
    Skill,
    skill_left,
)
from kernelagent.suite.compare.study import NOTHING_REAL, fold_run

LEVEL_2 = tuple(problems_of(FAMILIES["level-2"], 8))
SURE = Skill(first_correct=0.999, keeps_correct=0.999, void=0.0, repeat=0.0, approach_spread=0.0)


def events(strategy: str, problem: SimulatedProblem, seed: int = 0, turns: int = 12) -> list[Event]:
    take = SimulatedRuns([problem], Budget(turns=turns))
    return [logged.event for logged in take(strategy, problem.name, seed)]


def of_kind(kind: type, found: list[Event]) -> list:
    return [event for event in found if isinstance(event, kind)]


@pytest.mark.parametrize("strategy", BUILT_IN)
def test_a_run_of_the_same_seed_has_the_same_events_and_times(strategy):
    take = SimulatedRuns(LEVEL_2, Budget(turns=12))
    name = LEVEL_2[0].name
    assert take(strategy, name, 5) == take(strategy, name, 5)
    assert take(strategy, name, 5) != take(strategy, name, 6)


def test_strategies_are_paired_by_the_luck_of_their_first_turn():
    first = {
        strategy: of_kind(ReplyReceived, events(strategy, LEVEL_2[1], 3))[0]
        for strategy in BUILT_IN
    }
    assert len(set(first.values())) == 1


def test_everything_that_leaves_the_judge_says_simulated():
    evaluation = SimulatedJudge(LEVEL_2[0]).evaluate(
        Candidate(Point(1, True, 0.0, 0.5, 0.25).source()), lambda _: None
    )
    assert evaluation.device == DEVICE
    assert DEVICE.name == "simulated"
    assert DEVICE.kind == "virtual"
    assert evaluation.timing is None
    assert evaluation.estimate is not None
    assert evaluation.estimate.shapes == "simulated"


def test_a_point_survives_its_source_and_spelling_does_not_change_the_program():
    point = Point(12, True, -0.125, 0.1 + 0.2, -1e-9)
    respelled = point.source("POINT_7", " Spelled anew.")
    assert Point.read(point.source()) == Point.read(respelled) == point
    assert normal_form(point.source()) == normal_form(respelled)
    assert normal_form(point.source()) != normal_form(replace(point, sample=13).source())


def test_a_source_of_somebody_else_is_no_point():
    with pytest.raises(ValueError, match="simulated"):
        Point.read("class ModelNew:\n    pass\n")


def asked(temperature: float, turn: int) -> str:
    writer = SimulatedWriter(LEVEL_2[0], seed=1)
    request = TurnRequest("write", writer.name, temperature=temperature)
    reply = writer.reply(ModelQuery(turn, request, (), History()), lambda _: None)
    return reply.text


def test_at_temperature_zero_the_same_question_gets_the_same_reply():
    assert len({asked(0.0, turn) for turn in range(10)}) == 1
    assert len({asked(1.0, turn) for turn in range(10)}) > 5


def test_a_writer_that_repeats_itself_is_never_evaluated_twice_on_one_program():
    skill = replace(SURE, repeat=0.5, respelled=0.5)
    result = events("sequential", SimulatedProblem("echo", skill), turns=25)
    evaluated = of_kind(Evaluated, result)
    assert len(of_kind(TurnVoid, result)) > 5
    assert len({Point.read(event.source).sample for event in evaluated}) == len(evaluated)


def test_the_fold_would_see_a_duplicate_if_one_were_evaluated():
    take = SimulatedRuns(LEVEL_2, Budget(turns=6))
    logged = take("window", LEVEL_2[0].name, 0)
    assert fold_run("window", "p", 0, logged).duplicates == 0
    again = [*logged, next(item for item in logged if isinstance(item.event, Evaluated))]
    assert fold_run("window", "p", 0, again).duplicates == 1


def test_skill_is_whole_inside_the_context_and_falls_beyond():
    skill = Skill(context_tokens=10_000)
    left = [skill_left(skill, prompt) for prompt in (0, 10_000, 12_000, 20_000, 40_000)]
    assert left[:2] == [1.0, 1.0]
    assert left == sorted(left, reverse=True)
    assert 0 < left[-1] < left[-2] < 0.5


def test_a_prompt_beyond_the_context_is_cut_and_paid_for_as_cut():
    problem = SimulatedProblem("short", replace(SURE, context_tokens=6_000))
    replies = of_kind(ReplyReceived, events("sequential", problem))
    tokens = [reply.tokens_in for reply in replies]
    assert tokens == sorted(tokens)
    assert tokens[0] == SURE.task_tokens
    assert tokens[-1] == 6_000


def test_gains_diminish_towards_the_ceiling_and_never_pass_it():
    problem = SimulatedProblem("steady", replace(SURE, step_spread=0.0, gain=0.3), headroom=0.8)
    scores = [e.evaluation.score for e in of_kind(Evaluated, events("tree", problem, turns=30))]
    best = [max(scores[: n + 1]) for n in range(len(scores))]
    assert best[10] - best[0] > best[-1] - best[10]
    assert max(scores) <= 2.7182818**problem.ceiling + 1e-9


@pytest.mark.parametrize("strategy", BUILT_IN)
def test_a_token_budget_is_used_up_and_never_overdrawn(strategy):
    take = SimulatedRuns(LEVEL_2, Budget(turns=None, tokens=60_000))
    runs = [fold_run(strategy, p.name, 0, take(strategy, p.name, 0)) for p in LEVEL_2]
    assert max(run.end.tokens for run in runs) <= 60_000
    assert max(run.end.tokens for run in runs) > 40_000


def test_the_log_begins_at_zero_and_says_that_nothing_is_real():
    take = SimulatedRuns(LEVEL_2, Budget(turns=3))
    first, *rest = take("window", LEVEL_2[0].name, 0)
    assert first.event == Remarked("warning", NOTHING_REAL)
    assert first.time_s == 0
    run = fold_run("window", "p", 0, [first, *rest])
    replies = [item.event for item in rest if isinstance(item.event, ReplyReceived)]
    assert run.moments[0].seconds >= replies[0].seconds > 0


def test_options_reach_the_strategy():
    assert parse_strategy("window:window=2, variant=top") == (
        "window",
        {"window": "2", "variant": "top"},
    )
    requests = [e.request for e in of_kind(TurnStarted, events("window:window=2", LEVEL_2[0]))]
    assert max(len(request.window) for request in requests) == 2
