from __future__ import annotations

from dataclasses import replace

import pytest

from kernelagent.domain.errors import UsageError
from kernelagent.storage.lessons.distil import distil, together
from kernelagent.storage.lessons.facts import bound_of, fact_of, stated_in
from kernelagent.storage.run_state import RunState
from tests.storage.lessons.runs_by_hand import POWER, RACE, accepted, rejected, run_of, turn


def kinds(state: RunState) -> list[tuple[str, str, str]]:
    return [(item.kind, item.pattern, item.words) for item in distil(state).lessons]


def test_a_rule_of_the_language_holds_for_any_pattern_and_a_race_for_this_one():
    result = kinds(
        run_of(
            turn(0, rejected("compile_error", POWER)),
            turn(1, rejected("data_race", RACE), "repair", 0),
        )
    )
    assert result == [
        ("avoid", "any", "arange's range must be a power of 2"),
        ("avoid", "softmax", "program overwrites N elements of `…` that program stored"),
    ]


@pytest.mark.parametrize(
    ("bound", "known_as"),
    [("l2", "dram"), ("atomics", "dram"), ("dot", "dot"), ("launch", "launch")],
)
def test_lessons_know_caches_and_units_by_the_name_that_older_ones_have(bound, known_as):
    verdict = accepted(2.0)
    assert verdict.estimate is not None
    named = replace(verdict, estimate=replace(verdict.estimate, bound=bound))
    assert bound_of(named) == known_as


def test_a_wrong_output_teaches_no_rule_but_its_repair_does():
    wrong = rejected("wrong_output", "output is wrong in 77.0% of 25600 elements")
    result = distil(run_of(turn(0, wrong), turn(1, accepted(2.0), "repair", 0))).lessons
    remedy = result[0]
    assert [item.kind for item in result] == ["remedy", "worked"]
    assert (remedy.code, remedy.evidence[0].said) == ("wrong_output", "I mask the row's end.")


@pytest.mark.parametrize(("ratio", "supports"), [(3.0, [True]), (0.5, [False]), (1.1, [])])
def test_a_change_counts_for_or_against_only_beyond_what_an_estimate_can_tell(ratio, supports):
    state = run_of(turn(0, accepted(1.0, 3)), turn(1, accepted(ratio, 1), "optimise", 0))
    result = [item for item in distil(state).lessons if item.kind == "helps"]
    assert [item.evidence[0].supports for item in result] == supports
    assert all(item.words == "fewer launches" and item.bound == "launch" for item in result)
    assert all(item.evidence[0].estimated and item.evidence[0].low is None for item in result)


def test_a_rule_that_was_told_and_broken_all_the_same_is_evidence_against_it():
    broken = rejected("compile_error", POWER)
    (rule,) = distil(run_of(turn(0, broken))).lessons
    (again,) = distil(run_of(turn(0, broken, recalled=(rule.id,)), name="run-2")).lessons
    assert again.id == rule.id
    assert (rule.evidence[0].supports, again.evidence[0].supports) == (True, False)
    merged = together([rule, again])[rule.id]
    assert (merged.pros, merged.cons, merged.stands) == (1, 1, False)


def test_the_same_log_gives_the_same_lessons():
    state = run_of(turn(0, rejected("data_race", RACE)), turn(1, accepted(2.0), "repair", 0))
    assert distil(state) == distil(state)


def test_names_sizes_and_places_are_no_part_of_a_fact():
    other = RACE.replace("`k`", "`mine`").replace("512", "64").replace("`y`", "`out`")
    assert fact_of(RACE) == fact_of(other.replace("(1, 0, 0)", "(7, 2, 0)"))


def test_secrets_and_paths_never_come_into_a_lesson():
    message = "I took /home/ann/secret_project/model.py and sk-abcdefghijklmnopqrstuvwx from there."
    state = run_of(
        turn(0, rejected("import_error", "/home/ann/lib/x.py is missing")),
        turn(1, accepted(2.0), "repair", 0, said=message),
    )
    result = distil(state)
    assert "/home" not in str(result)
    assert "sk-abc" not in str(result)
    assert result.redacted >= 3


def test_a_machine_at_fault_teaches_nothing():
    fault = rejected("unverifiable", "the judge ran out of memory")
    assert kinds(run_of(turn(0, fault))) == []


def test_a_timeout_is_no_rule():
    assert kinds(run_of(turn(0, rejected("timeout", "`k` did not end, and 0 s are left")))) == []


def test_a_run_without_a_problem_is_refused():
    with pytest.raises(UsageError, match="never read"):
        distil(RunState(run="r"))


def test_words_of_a_reply_end_before_its_code_and_stay_short():
    assert stated_in("One thing. And another.\n```python\nx = 1\n```") == "One thing. And another."
    assert len(stated_in("word " * 500)) <= 280
