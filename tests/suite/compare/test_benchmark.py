from __future__ import annotations

import pytest

from benchmarks.strategies import (
    SETTINGS,
    STRATEGIES,
    checks,
    problems,
    section,
    study,
    window_check,
)
from kernelagent.suite.compare.families import FAMILIES
from kernelagent.suite.compare.study import Comparison, Moment, Run

AT_20 = next(setting for setting in SETTINGS if setting.name == "20 turns")


def ended(strategy: str, problem: str, best: float) -> Run:
    return Run(strategy, problem, 0, (Moment(20, 1e5, 1.0, 60.0, best),), 20, 1, 0, 0)


@pytest.fixture(scope="module")
def small() -> dict[str, Comparison]:
    return {setting.name: study(setting, 3, 0) for setting in SETTINGS}


@pytest.mark.long
def test_a_small_study_takes_every_strategy_through_every_setting(small):
    for setting in SETTINGS:
        table = "\n".join(section(setting, small[setting.name]))
        assert all(f"| {strategy} |" in table for strategy in STRATEGIES)
    assert len(checks(small)) == sum(setting.beyond for setting in SETTINGS) + 2


@pytest.mark.long
def test_no_run_goes_beyond_its_budget(small):
    for setting in SETTINGS:
        ends = [run.end.at(setting.axis) for run in small[setting.name].runs]
        assert 0.5 * setting.limit < max(ends) <= setting.limit


def test_each_family_gives_as_many_problems():
    names = [problem.name for problem in problems(9, 0)]
    assert [sum(family in name for name in names) for family in FAMILIES] == [3, 3, 3]


@pytest.mark.parametrize(("window", "passed"), [(1.2, False), (1.5, True)])
def test_a_window_that_loses_fails_its_check(window, passed):
    runs = [ended("window", f"p{n}", window) for n in range(4)]
    runs += [ended("sequential", f"p{n}", 1.5) for n in range(4)]
    check = window_check(AT_20, Comparison(("window", "sequential"), tuple(runs)))
    assert check.passed == passed
    assert f"{window / 1.5:.3f}×" in check.words
