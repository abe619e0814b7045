"""Prompts under a limit: never over it, nothing of importance cut without a word."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelagent.domain.history import History, Turn, TurnRequest
from kernelagent.prompts import PromptTooLong, fit_prompt, prompt_tokens, render_prompt
from tests.evaluations import DEVICE, FACTS, accepted, rejected
from tests.lanes import examples

LAST_WORDS = "- launch: the_last_finding"


def reply(number: int, lines: int) -> str:
    code = "\n".join(f"    field_{i} = {number * i}" for i in range(lines))
    return (
        f"Hypothesis {number} and why.\n\n```python\nclass ModelNew:\n{code}\n    last = 1\n```\n"
    )


def history_of(sizes: list[tuple[int, int, bool]]) -> History:
    """A turn for each (lines of code, lines of findings, accepted)."""
    turns = []
    for index, (code, result, good) in enumerate(sizes):
        request = TurnRequest("write", "m", parent=index - 1 if index else None)
        lines = [f"finding {index}.{i} {'word ' * 6}" for i in range(result)]
        turns.append(
            Turn(
                index=index,
                request=request,
                reply=reply(index, code),
                evaluation=accepted(1.0 + index) if good else rejected("compile_error"),
                feedback="\n".join(["The verdict.", *lines, LAST_WORDS]),
            )
        )
    return History(tuple(turns))


def request_for(history: History, window: tuple[int, ...], kind="repair") -> TurnRequest:
    return TurnRequest(kind, "m", parent=window[-1] if window else None, window=window)


@pytest.mark.long
@settings(max_examples=examples(60))
@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 120), st.integers(0, 25), st.booleans()), min_size=1, max_size=8
    ),
    seed=st.integers(0, 999),
    limit=st.integers(200, 8000),
    style=st.sampled_from(["strong", "small"]),
)
def test_prompt_is_never_over_the_limit_and_never_cut_in_silence(sizes, seed, limit, style):
    history = history_of(sizes)
    chosen = sorted(
        random.Random(seed).sample(range(len(sizes)), k=random.Random(seed).randint(1, len(sizes)))
    )
    request = request_for(history, tuple(chosen))
    source = "\n".join(["class Model:", *(f"    line_{i} = {i}" for i in range(40)), "# end"])
    facts = replace(FACTS, source=source)
    try:
        fitted = fit_prompt(facts, DEVICE, history, request, max_tokens=limit, style=style)
    except PromptTooLong:
        # Such a limit is under the bare task; anything above it must fit.
        bare = fit_prompt(facts, DEVICE, History(), TurnRequest("repair", "m"))
        assert limit < bare.tokens + 400
        return
    assert prompt_tokens(fitted.messages) == fitted.tokens <= limit
    whole = fit_prompt(facts, DEVICE, history, request, style=style)
    if whole.tokens <= limit:
        assert fitted == whole
        return
    task, now = fitted.messages[1].content, fitted.messages[-1].content
    assert source in task or "lines left out to fit your window" in task
    last = history.turn(chosen[-1]).feedback
    assert last in now or "lines left out to fit your window" in now
    assert now.count(LAST_WORDS) >= 1
    assert fitted.cut
    for what in fitted.cut:
        assert what in now


@pytest.mark.long
def test_parts_go_in_the_stated_order():
    history = history_of([(30, 25, False)] * 6)
    request = request_for(history, (1, 2, 3, 4, 5))
    source = "\n".join(f"line_{i} = {i}" for i in range(60))
    facts = replace(FACTS, source=source)
    whole = fit_prompt(facts, DEVICE, history, request, style="small")
    seen: list[str] = []
    for limit in range(whole.tokens, 0, -5):
        try:
            result = fit_prompt(facts, DEVICE, history, request, max_tokens=limit, style="small")
        except PromptTooLong:
            break
        assert list(result.cut[: len(seen)]) == seen
        seen = list(result.cut)
    assert seen == [
        "turn 1",
        "turn 2",
        "turn 3",
        "turn 4",
        "the oldest one-line summaries",
        "lessons of earlier rejections",
        "what your replies said around their code",
        "the worked example",
        "the middle of your last reply",
        "the middle of the last findings",
        "the middle of the module's source",
    ]


@pytest.mark.parametrize("kind", ["write", "repair", "optimise", "rethink"])
@pytest.mark.parametrize("style", ["strong", "small"])
def test_each_kind_of_request_is_worded_for_strong_and_small_models(kind, style):
    other = "small" if style == "strong" else "strong"
    history = history_of([(3, 1, True)])
    request = request_for(history, (0,), kind)
    message = render_prompt(FACTS, DEVICE, history, request, style=style)
    differently = render_prompt(FACTS, DEVICE, history, request, style=other)
    assert message[-1] != differently[-1]
    assert ("one sentence, then one ```python block" in message[-1].content) == (style == "small")
    assert ("triton.next_power_of_2" in message[1].content) == (style == "small")


def test_task_names_what_the_device_can_do_and_only_what_is_known():
    known = replace(DEVICE, multiprocessors=132, shared_bytes=232448, dram_bytes_per_s=4.8e12)
    request = TurnRequest("write", "m")
    task = render_prompt(FACTS, known, History(), request)[1].content
    assert "at most 232448 bytes a program" in task
    assert "4.8 TB/s" in task
    bare = render_prompt(FACTS, DEVICE, History(), request)[1].content
    assert "None" not in bare
    assert "TB/s" not in bare
