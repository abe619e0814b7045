from __future__ import annotations

from dataclasses import replace

from kernelagent.domain.history import History, Recalled, TurnRequest
from kernelagent.prompts import fit_prompt, render_prompt
from kernelagent.storage.lessons.distil import distil, together
from kernelagent.storage.lessons.recall import Memory
from tests.storage.lessons.runs_by_hand import (
    DEVICE,
    ELSEWHERE,
    HARNESS,
    POWER,
    RACE,
    SOFTMAX,
    accepted,
    facts,
    rejected,
    run_of,
    turn,
)

RMS = "class Model:\n    def forward(self, x):\n        return F.rms_norm(x, (8,))\n"
PRODUCT = "class Model:\n    def forward(self, x, w):\n        return x @ w\n"
TAUGHT = run_of(
    turn(0, rejected("compile_error", POWER)),
    turn(1, rejected("data_race", RACE), "repair", 0),
    turn(2, accepted(1.0, 3), "repair", 1),
    turn(3, accepted(3.0, 1), "optimise", 2),
)
WRITE = TurnRequest("write", "m")


def memory_of(*states, judge: str = HARNESS[:12], most: int = 4) -> Memory:
    lessons = [item for state in states for item in distil(state).lessons]
    return Memory(tuple(together(lessons).values()), judge, most)


def told(memory: Memory, *turns, request=WRITE, source=SOFTMAX, device=DEVICE) -> list[str]:
    result = memory.recall(facts(source), device, History(turns), request)
    return [item.words for item in result]


def test_a_first_version_is_told_what_worked_and_what_to_avoid():
    words = told(memory_of(TAUGHT))
    assert words[0].startswith("best for softmax: 1 kernel, 1 launch")
    assert any("power of 2" in line for line in words)
    assert any("overwrites" in line for line in words)


def test_a_repair_is_told_what_mended_that_very_rejection():
    broken = turn(0, rejected("data_race", RACE))
    words = told(memory_of(TAUGHT), broken, request=TurnRequest("repair", "m", parent=0))
    assert words[0].startswith("after data_race")
    assert "I mask the row's end." in words[0]
    assert not any(line.startswith("avoid data_race") for line in words)


def test_an_optimisation_is_told_what_lifted_the_limit_it_has():
    slow = turn(0, accepted(1.0, 3))
    words = told(memory_of(TAUGHT), slow, request=TurnRequest("optimise", "m", parent=0))
    assert words[0].startswith("when bound by launch: fewer launches (3.00× the version before by")


def test_a_change_with_nothing_left_to_win_is_not_told():
    fused = turn(0, accepted(1.0, 1))
    words = told(memory_of(TAUGHT), fused, request=TurnRequest("optimise", "m", parent=0))
    assert not any("fewer launches" in line for line in words)


def test_another_pattern_is_told_only_the_rules_of_the_language():
    words = told(memory_of(TAUGHT), source=PRODUCT)
    assert words == ["avoid compile_error: arange's range must be a power of 2 (1 turn)"]


def test_an_alike_pattern_is_told_with_the_place_it_comes_from():
    words = told(memory_of(TAUGHT), source=RMS)
    assert any("overwrites" in line and "seen in softmax" in line for line in words)


def test_lessons_of_another_device_or_judge_say_so():
    memory = memory_of(TAUGHT, judge="another")
    (line,) = told(memory, source=PRODUCT)
    assert "by another version of the judge" in line
    words = told(memory_of(TAUGHT), device=ELSEWHERE)
    assert words
    assert all("learnt on virtual-sm_90, not tried here" in line for line in words)


def test_an_estimate_is_called_one_wherever_it_is_told():
    words = told(memory_of(TAUGHT))
    assert [line for line in words if "×" in line and "ESTIMATE" not in line] == []


def test_a_lesson_that_was_refuted_is_told_no_more():
    rule = distil(TAUGHT).lessons[0]
    against = replace(rule.evidence[0], run="later", supports=False)
    fallen = Memory((rule.with_evidence((against,)),))
    assert told(Memory((rule,)))
    assert told(fallen) == []


def test_no_more_lines_than_wanted_and_always_the_same_ones():
    memory = memory_of(TAUGHT, most=2)
    assert len(told(memory)) == 2
    assert told(memory) == told(Memory(memory.lessons[::-1], memory.judge, 2))


def test_a_prompt_says_what_was_recalled_and_without_a_memory_is_as_before():
    request = replace(WRITE, recalled=(Recalled("id", "avoid something (2 turns)"),))
    with_it = render_prompt(facts(), DEVICE, History(), request)[-1].content
    without = render_prompt(facts(), DEVICE, History(), WRITE)[-1].content
    assert "- avoid something (2 turns)" in with_it
    assert "earlier runs" not in without
    start = with_it.index("From earlier runs")
    end = with_it.index("- avoid something (2 turns)") + len("- avoid something (2 turns)")
    assert (with_it[:start] + with_it[end:]).split() == without.split()


def test_hints_of_earlier_runs_go_before_the_task_when_the_window_is_tight():
    lines = tuple(Recalled(str(n), f"hint {n} " + "word " * 200) for n in range(4))
    request = replace(WRITE, recalled=lines)
    whole = fit_prompt(facts(), DEVICE, History(), request)
    tight = fit_prompt(facts(), DEVICE, History(), request, max_tokens=whole.tokens - 300)
    assert "hints of earlier runs" in tight.cut
    assert "hint 0" in tight.messages[-1].content
    assert "hint 3" not in tight.messages[-1].content
    assert facts().source.strip() in tight.messages[1].content
