"""The words a model is sent: templates beside this file, rendered strictly from the run's facts."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import jinja2

from kernelagent.evaluation import DeviceFacts
from kernelagent.history import History, Message, TurnRequest
from kernelagent.problem import ProblemFacts
from kernelagent.records import to_json
from kernelagent.tried import lessons, summary


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )


def render_prompt(
    facts: ProblemFacts, device: DeviceFacts, history: History, request: TurnRequest
) -> tuple[Message, ...]:
    """The task, then each turn of the window as reply and feedback, then what is asked now."""
    messages = [
        Message("system", _text("system.md.j2")),
        Message("user", _text("task.md.j2", facts=facts, device=device)),
    ]
    for index in request.window:
        turn = history.turn(index)
        if turn.reply is None:
            continue
        messages.append(Message("assistant", turn.reply))
        messages.append(Message("user", turn.feedback))
    parent = None if request.parent is None else history.turn(request.parent)
    shown = frozenset(request.window)
    now = _text(
        "request.md.j2",
        request=request,
        parent=parent,
        best=history.best,
        void=_last_void(history, shown),
        summaries=[summary(t) for t in history.finished if t.evaluation and t.index not in shown][
            -_SUMMARIES:
        ],
        lessons=lessons(history, shown),
    )
    if messages[-1].role == "user":
        messages[-1] = Message("user", f"{messages[-1].content}\n\n{now}")
    else:
        messages.append(Message("user", now))
    return tuple(messages)


_SUMMARIES = 12
"""Turns outside the window that are still told in one line each."""


def _last_void(history: History, shown: frozenset[int]) -> str | None:
    """Why the very last reply held nothing to evaluate, when the window does not tell."""
    last = history.turns[-1] if history.turns else None
    return last.void if last is not None and last.index not in shown else None


def prompt_hash(messages: tuple[Message, ...]) -> str:
    """SHA-256 of the messages as JSON."""
    return hashlib.sha256(to_json(list(messages))).hexdigest()


def _text(template: str, **facts: object) -> str:
    return _environment().get_template(template).render(**facts).strip()
