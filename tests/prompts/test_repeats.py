"""What was tried already: repeats however they are spelled, lines that come back, lessons."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import HeadroomFacts
from kernelagent.domain.history import History, Turn, TurnRequest
from kernelagent.prompts import render_prompt
from kernelagent.prompts.repeats import best_line, lessons, normal_form, readded_lines, same_as
from tests.evaluations import DEVICE, FACTS, accepted, history_of, rejected, reply_with

PROGRAM = '''
import torch
import triton.language as tl

def {kernel}({x}, {out}, n, BLOCK: tl.constexpr):
    """What it does."""
    {i} = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # offsets
    tl.store({out} + {i}, tl.load({x} + {i}, mask={i} < n) * 2.0, mask={i} < n)

class ModelNew(torch.nn.Module):
    def forward(self, {x}):
        return {kernel}({x}, self.weight, n=4, BLOCK=128)
'''
NAMES = ("kernel", "x", "out", "i")
WORDS = st.lists(
    st.from_regex(r"[a-z][a-z0-9]{0,6}_", fullmatch=True), min_size=4, max_size=4, unique=True
)


def program(names):
    return PROGRAM.format(**dict(zip(NAMES, names, strict=True)))


@pytest.mark.long
@given(WORDS, WORDS)
def test_own_names_make_no_difference(one, other):
    assert normal_form(program(one)) == normal_form(program(other))


@given(WORDS)
def test_two_names_exchanged_in_one_place_make_a_difference(names):
    _, x, out, _ = names
    changed = program(names).replace(f"tl.store({out} +", f"tl.store({x} +")
    assert normal_form(program(names)) != normal_form(changed)


def test_comments_docstrings_and_layout_make_no_difference():
    source = program(NAMES)
    spelled = source.replace("# offsets", "").replace('    """What it does."""\n', "")
    assert normal_form(source) == normal_form(spelled.replace(" * 2.0", "*2.0"))


@pytest.mark.parametrize(
    ("old", "new"), [("2.0", "2.5"), ("BLOCK=128", "BLOCK=256"), ("self.weight", "self.bias")]
)
def test_constants_and_attributes_make_a_difference(old, new):
    assert normal_form(program(NAMES)) != normal_form(program(NAMES).replace(old, new))


def turn(index, source, evaluation=None, parent=None):
    request = TurnRequest("optimise", "m", parent=parent)
    return Turn(
        index, request, "reply", candidate=Candidate(source), evaluation=evaluation or accepted(1.0)
    )


def test_a_repeat_under_other_names_is_found():
    history = History((turn(0, program(NAMES)),))
    again = Candidate(program(("k", "a", "b", "c")))
    assert same_as(history, again) == history.turns[0]
    assert same_as(history, Candidate("x = 1")) is None


def test_lines_that_were_taken_out_and_come_back_are_told():
    first = "one = 1\ntwo = 2\nthree = 3\nfour = 4\n"
    second = "one = 1\nother = 5\n"
    history = History((turn(0, first), turn(1, second, parent=0)))
    third = turn(2, first, parent=1)
    message = readded_lines(history, third)
    assert message is not None
    assert "turn 1 took them out" in message
    assert (
        readded_lines(history, turn(2, second + "new = 6\nnewer = 7\nnewest = 8\n", parent=1))
        is None
    )


def test_a_return_to_what_was_better_is_no_repeat():
    first = "one = 1\ntwo = 2\nthree = 3\nfour = 4\n"
    worse = turn(1, "one = 1\nother = 5\n", accepted(0.5), parent=0)
    history = History((turn(0, first), worse))
    assert readded_lines(history, turn(2, first, parent=1)) is None


def test_a_prompt_tells_by_how_much_another_version_is_better():
    history = history_of(accepted(3.0), accepted(2.0))
    line = best_line(history.turns[1], history)
    assert line == "The best version so far is that of turn 0: 3.00× eager, that of turn 1 2.00×."
    assert best_line(history.turns[0], history) is None


def test_a_version_within_the_noise_of_the_best_is_not_called_worse():
    history = history_of(accepted(3.0), accepted(3.1))
    line = best_line(history.turns[1], history)
    assert line == (
        "The version of turn 1 has the best number (3.10× eager; turn 0 3.00×), by less than its interval and "
        "that of turn 0 tell apart."
    )


def test_the_best_number_is_that_of_all_versions_and_not_of_the_last():
    history = history_of(accepted(3.0), accepted(3.2), accepted(3.1))
    for at, others in ((2, "turn 0 3.00×, turn 2 3.10×"), (0, "turn 0 3.00×")):
        line = best_line(history.turns[at], history)
        assert line is not None
        assert line.startswith(
            f"The version of turn 1 has the best number (3.20× eager; {others}), by less"
        )


@pytest.mark.parametrize("other", [3.001, 2.999])
def test_of_numbers_that_look_alike_nothing_is_said(other: float):
    history = history_of(accepted(3.0), accepted(other))
    assert [best_line(turn, history) for turn in history.turns] == [None, None]


def test_at_the_bound_a_prompt_asks_for_no_other_block_sizes():
    left = HeadroomFacts("default", 57600, {}, 4.0, "dram", 0.97, 0.03)
    judged = replace(accepted(2.0), headroom=left)
    request = TurnRequest("optimise", "m", window=(0,), parent=0)
    asked = render_prompt(FACTS, DEVICE, history_of(judged), request)[-1].content
    assert (
        "The version of turn 0 was accepted, and by the estimate next to nothing is left" in asked
    )
    room = replace(judged, headroom=replace(left, left=0.5))
    assert "Make it faster" in render_prompt(FACTS, DEVICE, history_of(room), request)[-1].content


def refused(index, code, message):
    bad = rejected(code)
    return turn(index, f"x = {index}", replace(bad, reason=replace(bad.reason, message=message)))


def test_lessons_are_facts_that_hold_for_the_next_candidate_each_once():
    history = History(
        (
            refused(0, "compile_error", "line 9: tl.dot needs at least 16 in each dimension"),
            refused(1, "wrong_output", "output is wrong in 3 % of 100 elements"),
            refused(2, "compile_error", "line 9: tl.dot needs at least 16 in each dimension"),
        )
    )
    assert lessons(history, frozenset()) == (
        "compile_error: line 9: tl.dot needs at least 16 in each dimension (turn 0, 2)",
    )
    assert lessons(history, frozenset({0, 2})) == ()


def test_a_prompt_tells_what_left_its_window_in_a_line_each():
    history = History((turn(0, "x = 1"), turn(1, "x = 2", rejected("no_kernel"))))
    request = TurnRequest("optimise", "m", parent=0, window=(0,))
    message = render_prompt(FACTS, DEVICE, history, request)[-1].content
    assert "turn 1: no_kernel" in message
    assert "- turn 0:" not in message


def test_a_prompt_tells_why_the_last_reply_was_void_when_the_window_does_not():
    void = Turn(0, TurnRequest("write", "m"), reply_with(1), void="no code in it")
    message = render_prompt(FACTS, DEVICE, History((void,)), TurnRequest("write", "m"))
    assert "no code in it" in message[-1].content


def test_a_chain_is_told_why_its_own_last_reply_was_void_whatever_other_chains_did():
    first = Turn(0, TurnRequest("write", "m", trajectory=0), "reply", void="repeated: turn 9")
    second = turn(1, "x = 1")
    second = replace(second, request=replace(second.request, trajectory=1))
    history = History((first, second))
    for trajectory, told in ((0, True), (1, False), (2, False)):
        request = TurnRequest("write", "m", trajectory=trajectory)
        asked = render_prompt(FACTS, DEVICE, history, request)[-1].content
        assert ("repeated: turn 9" in asked) is told
