"""Templates of the user's own: a conversation in another form, and one sentence for whatever is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import UsageError
from kernelagent.domain.events import TurnStarted
from kernelagent.domain.history import History, TurnRequest
from kernelagent.loop.session import Session
from kernelagent.prompts import prompts_version, render_prompt
from kernelagent.storage.run_log import EventLog, RunFolder, read_events
from kernelagent.strategies.sequential import Sequential
from tests.evaluations import DEVICE, FACTS, Recorded, Scripted, accepted, rejected, reply_with

AS_JSON = Path(__file__).resolve().parents[2] / "examples" / "prompts" / "evaluation_as_json"
FIRST = TurnRequest("write", "m")


def templates(folder: Path, first: str, following: str = "{{ feedback }}") -> str:
    (folder / "first.md.j2").write_text(first, encoding="utf-8")
    (folder / "next.md.j2").write_text(following, encoding="utf-8")
    return str(folder)


def test_run_speaks_to_a_checkpoint_in_the_form_it_was_trained_on(tmp_path: Path) -> None:
    """One user message and no system message; then the evaluation as JSON, and a whole program again."""
    folder = RunFolder.create(tmp_path / "runs", "toy", now=0.0)
    log = EventLog(folder, clock=lambda: 1.0)
    model = Scripted([reply_with(0), "Let me think about it.", reply_with(1)])
    session = Session(
        facts=FACTS,
        device=DEVICE,
        strategy=Sequential((model.name,)),
        models={model.name: model},
        evaluator=Recorded([rejected(), accepted(1.5)]),
        budget=RunConfig(turns=3).budget,
        publish=log.publish,
        clock=lambda: 0.0,
        keep_prompt=folder.keep_prompt,
        keep_candidate=folder.keep_candidate,
        config=RunConfig(prompts=str(AS_JSON)),
    )
    session.run()

    first, second, third = (ask.messages for ask in model.seen)
    assert [message.role for message in first] == ["user"]
    assert FACTS.source.strip() in first[0].content
    assert [message.role for message in second] == ["user", "assistant", "user"]
    assert second[1].content == reply_with(0)
    told = second[2].content
    answer = json.loads(told[told.index("{") : told.rindex("}") + 1])
    assert answer["correctness"] is False
    assert answer["error"] == "wrong_output: the last 3 columns are wrong"
    assert (
        "held no program that could be evaluated: the reply holds no Python code block"
        in third[-1].content
    )
    assert [turn.accepted for turn in session.history.turns] == [False, False, True]
    begun = [e.event for e in read_events(folder.log) if isinstance(e.event, TurnStarted)]
    assert {event.prompts for event in begun} == {prompts_version(str(AS_JSON))}


def test_accepted_version_is_told_with_its_estimate_called_so() -> None:
    history = History()
    for turn in (rejected(), accepted(1.5)):
        history = history.with_turn(_turn(history.next_index, turn))
    request = TurnRequest("optimise", "m", parent=1, window=(1,))
    told = render_prompt(FACTS, DEVICE, history, request, style=str(AS_JSON))[-1].content
    answer = json.loads(told[told.index("{") : told.rindex("}") + 1])
    assert (answer["speedup"], answer["speedup_is_an_estimate"]) == (1.5, True)
    assert answer["profiling"] == {"coverage": 0.9, "kernels": ["norm"]}


def _turn(index, evaluation):
    from kernelagent.domain.history import Turn

    return Turn(index, FIRST, reply_with(index), evaluation=evaluation, feedback="Words.")


def test_template_may_hold_the_tool_s_own_task(tmp_path: Path) -> None:
    style = templates(tmp_path, "Task:\n{{ task }}\nDo: {{ request.kind }}")
    (message,) = render_prompt(FACTS, DEVICE, History(), FIRST, style=style)
    assert "Write a faster replacement for the module `Model`" in message.content
    assert message.content.endswith("Do: write")


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("{% if %}", "first.md.j2: line 1: Expected an expression"),
        ("{{ sources }}", "first.md.j2: 'sources' is undefined"),
        ("{{ facts.nothing }}", "has no attribute 'nothing'"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
    ],
)
def test_what_is_wrong_with_a_template_is_one_sentence(
    tmp_path: Path, first: str, why: str
) -> None:
    style = templates(tmp_path, first)
    with pytest.raises(UsageError, match="--prompts") as raised:
        render_prompt(FACTS, DEVICE, History(), FIRST, style=style)
    assert why in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_folder_without_templates_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no first.md.j2"):
        render_prompt(FACTS, DEVICE, History(), FIRST, style=str(tmp_path))
    with pytest.raises(UsageError, match="use strong, small, or a folder"):
        render_prompt(FACTS, DEVICE, History(), FIRST, style="storng")
