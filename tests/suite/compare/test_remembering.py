from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import memory as study
from kernelagent.storage.lessons.lesson import Lesson
from kernelagent.storage.lessons.patterns import ANY
from kernelagent.suite.compare.remembering import Heeding, World

pytestmark = pytest.mark.long

PROBLEMS = 10
NO_EFFECT = Heeding(heeded=0.0, distraction=0.0)
ALWAYS = Heeding(heeded=1.0, distraction=0.0)


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> tuple[Lesson, ...]:
    return study.taught_library(0, World(), tmp_path_factory.mktemp("own") / "memory").lessons()


def taken(*arms: study.Arm):
    return study.study(PROBLEMS, 0, World(), [study.Arm(study.NONE), *arms])


def test_the_library_holds_the_rules_of_the_world_it_learnt_from(own):
    world = World()
    facts = {item.fact for kind in study.PATTERNS for item in world.pitfalls(kind)}
    rules = [item for item in own if item.kind == "avoid"]
    assert {item.pattern for item in rules} == {*study.PATTERNS, ANY}
    assert {item.words for item in rules} <= facts


def test_lines_that_change_nothing_change_nothing(own):
    compared, seen = taken(study.Arm("told", "", own, NO_EFFECT))
    reported, none = compared.of("told"), compared.of(study.NONE)
    assert seen["told"].lines > 0
    assert [run.accepted for run in reported] == [run.accepted for run in none]
    assert [run.moments[-1].best for run in reported] == [run.moments[-1].best for run in none]
    assert sum(run.moments[-1].tokens for run in reported) > sum(r.moments[-1].tokens for r in none)


def test_recall_tells_of_this_problem_and_a_misfiled_library_does_not(own):
    wrong = study.misfiled(own)
    _, seen = taken(study.Arm("own", "", own, NO_EFFECT), study.Arm("wrong", "", wrong, NO_EFFECT))
    right, misled = seen["own"], seen["wrong"]
    assert right.useful / right.lines > 0.9 > misled.useful / misled.lines
    assert right.warned / right.taught > misled.warned / misled.taught


def test_a_failure_that_was_told_and_is_always_heeded_does_not_happen(own):
    _, seen = taken(study.Arm("heeded", "", own, ALWAYS))
    assert seen["heeded"].warned == 0
    assert seen["heeded"].taught > 0, "some failures come without a warning"


def test_a_rule_switched_off_is_not_told(own):
    off = tuple(replace(item, off=True) for item in own)
    _, seen = taken(study.Arm("off", "", off, ALWAYS))
    assert seen["off"].lines == 0
