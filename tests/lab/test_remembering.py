from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import memory as study
from kernelagent.lab.remembering import Heeding, World
from kernelagent.memory.lesson import Lesson
from kernelagent.memory.patterns import ANY

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
    facts = {one.fact for kind in study.PATTERNS for one in world.pitfalls(kind)}
    rules = [one for one in own if one.kind == "avoid"]
    assert {one.pattern for one in rules} == {*study.PATTERNS, ANY}
    assert {one.words for one in rules} <= facts


def test_lines_that_change_nothing_change_nothing(own):
    compared, seen = taken(study.Arm("told", "", own, NO_EFFECT))
    told, none = compared.of("told"), compared.of(study.NONE)
    assert seen["told"].lines > 0
    assert [run.accepted for run in told] == [run.accepted for run in none]
    assert [run.moments[-1].best for run in told] == [run.moments[-1].best for run in none]
    assert sum(run.moments[-1].tokens for run in told) > sum(r.moments[-1].tokens for r in none)


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
    off = tuple(replace(one, off=True) for one in own)
    _, seen = taken(study.Arm("off", "", off, ALWAYS))
    assert seen["off"].lines == 0
