from __future__ import annotations

import math
import random
import time

import pytest

from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.errors import UsageError
from kernelagent.strategies import BUILT_IN
from kernelagent.suite.compare.families import FAMILIES, SimulatedRuns, problems_of
from kernelagent.suite.compare.study import (
    AXES,
    NOTHING_REAL,
    NOTHING_TIMED,
    Comparison,
    Moment,
    Run,
    compare,
    fold_run,
    geometric_mean,
)

RUNS_A_MINUTE = 1000


@pytest.fixture(scope="module")
def small() -> Comparison:
    problems = tuple(problems_of(FAMILIES["level-2"], 5))
    take = SimulatedRuns(problems, Budget(turns=10))
    names = [problem.name for problem in problems]
    return compare(list(BUILT_IN), names, take, seeds=(0, 1), simulated=True)


def run(strategy: str, problem: str, seed: int, *best: float) -> Run:
    moments = tuple(Moment(n + 1, 10.0 * (n + 1), 0.1, n, b) for n, b in enumerate(best))
    return Run(strategy, problem, seed, moments, len(best), 0, 0, 0)


@pytest.mark.long
def test_every_strategy_takes_the_same_problems_and_seeds(small):
    taken = {
        strategy: [(run.problem, run.seed) for run in small.of(strategy)] for strategy in BUILT_IN
    }
    assert len({tuple(pairs) for pairs in taken.values()}) == 1
    assert len(small.runs) == len(BUILT_IN) * 5 * 2


@pytest.mark.parametrize("axis", AXES)
def test_a_curve_never_falls_and_lies_within_its_band(small, axis):
    for curve in small.curves(axis, resamples=50):
        values = [value.value for value in curve.values]
        assert values == sorted(values)
        assert values[0] == 1.0
        assert all(value.low <= value.value <= value.high for value in curve.values)
        assert list(curve.places) == sorted(set(curve.places))


@pytest.mark.long
def test_the_end_of_every_curve_is_the_row_of_the_table(small):
    for curve, row in zip(small.curves("tokens"), small.rows(), strict=True):
        assert curve.strategy == row.strategy
        assert curve.values[-1] == row.worth


def test_no_program_is_evaluated_twice(small):
    assert [row.duplicates for row in small.rows()] == [0] * len(BUILT_IN)


def test_what_is_slower_than_eager_is_worth_eager():
    comparison = Comparison(("a",), (run("a", "p", 0, 0.0, 0.5, 2.0),))
    (row,) = comparison.rows("turns", 2)
    assert row.worth.value == 1.0
    assert row.correct == 1.0
    assert comparison.rows("turns", 1)[0].correct == 0.0
    assert comparison.rows()[0].worth.value == pytest.approx(2.0)


def test_problems_weigh_the_same_however_many_runs_they_have():
    runs = (run("a", "p", 0, 4.0), run("a", "q", 0, 1.0), run("a", "q", 1, 1.0))
    assert Comparison(("a",), runs).rows()[0].worth.value == pytest.approx(2.0)


def test_a_ratio_is_taken_pair_by_pair_and_is_narrower_than_what_it_compares():
    luck = random.Random(1)
    speeds = [math.exp(luck.gauss(1, 0.5)) + 1 for _ in range(30)]
    runs = [run("a", f"p{n}", 0, s) for n, s in enumerate(speeds)]
    runs += [run("b", f"p{n}", 0, s * 1.1) for n, s in enumerate(speeds)]
    comparison = Comparison(("a", "b"), tuple(runs))
    ratio = comparison.ratio("b", "a")
    assert ratio.value == pytest.approx(1.1)
    assert ratio.high - ratio.low < 0.001
    worth = comparison.rows()[0].worth
    assert worth.high - worth.low > 0.1


@pytest.mark.long
def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    luck = random.Random(7)
    covered = 0
    for trial in range(300):
        logs = {str(n): [luck.gauss(0.3, 0.5)] for n in range(40)}
        result = geometric_mean(logs, resamples=200, seed=trial)
        covered += result.low <= math.exp(0.3) <= result.high
    assert 0.90 <= covered / 300 <= 0.98


def test_one_run_has_an_interval_of_no_width_and_one_problem_draws_its_runs():
    alone = geometric_mean({"p": [0.5]})
    assert alone.low == alone.value == alone.high
    several = geometric_mean({"p": [0.1, 0.5, 0.9]})
    assert several.low < several.value < several.high


def test_a_comparison_says_first_what_its_numbers_are():
    problem = next(problems_of(FAMILIES["level-2"], 1))
    logged = SimulatedRuns([problem], Budget(turns=6))("window", problem.name, 0)
    folded = fold_run("window", problem.name, 0, logged)
    assert Comparison(("window",), (folded,), simulated=True).warning == NOTHING_REAL
    assert Comparison(("window",), (folded,)).warning == NOTHING_TIMED
    assert Comparison(("a",), (run("a", "p", 0, 2.0),)).warning == ""


@pytest.mark.parametrize("twice", [["window", "window"], []])
def test_strategies_must_be_given_once_each(twice):
    with pytest.raises(UsageError, match="each once"):
        compare(twice, ["p"], lambda *_: [])


def test_a_strategy_that_does_not_exist_is_refused():
    problems = list(problems_of(FAMILIES["level-2"], 1))
    take = SimulatedRuns(problems, Budget(turns=2))
    with pytest.raises(UsageError, match="no strategy"):
        compare(["guess"], [problems[0].name], take)


@pytest.mark.long
def test_a_thousand_runs_of_20_turns_take_less_than_a_minute_of_one_core():
    problems = list(problems_of(FAMILIES["level-2"], 10))
    take = SimulatedRuns(problems, Budget(turns=20))
    began = time.process_time()
    done = compare(["sequential", "window", "tree"], [p.name for p in problems], take)
    minutes = (time.process_time() - began) / 60
    assert {run.end.turns for run in done.runs} == {20}
    assert len(done.runs) / minutes > RUNS_A_MINUTE
