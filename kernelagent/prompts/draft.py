"""A prompt as a record of its parts, each of which can be left out or shortened separately."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from kernelagent.domain.configuration.model_options import STYLES
from kernelagent.domain.evaluation import DeviceFacts, Evaluation
from kernelagent.domain.history import History, Message, Turn, TurnRequest
from kernelagent.domain.problem import ProblemFacts
from kernelagent.domain.replies.tool_registry import Tool
from kernelagent.domain.serialization import to_data
from kernelagent.prompts.costs import (
    device_lines,
    executed_lines,
    reference_lines,
    stride_lines,
    tolerance_lines,
)
from kernelagent.prompts.feedback import NOTHING_LEFT
from kernelagent.prompts.repeats import best_line, lessons, summary
from kernelagent.prompts.user_templates import user_templates

_TEMPLATES = Path(__file__).parent
_WORDING = 4
"""Increment it when the wording changes on purpose; the hash detects every change."""
_SUMMARIES = 12
"""Turns outside the window that are still told in one line each."""


@dataclass(frozen=True)
class Shown:
    """One earlier turn as the model sees it."""

    turn: int
    reply: str
    feedback: str
    summary: str | None
    """What is told instead once the turn itself is left out; None for a void turn."""
    evaluation: Evaluation | None = None
    source: str | None = None
    """What was judged of the reply; None for a void turn."""


@dataclass(frozen=True)
class Draft:
    """Everything a prompt may say; `cut` names what was taken away already."""

    facts: ProblemFacts
    device: DeviceFacts
    request: TurnRequest
    source: str
    """The task: the module's source, whole unless nothing else was left to shorten."""
    shown: tuple[Shown, ...]
    summaries: tuple[str, ...]
    lessons: tuple[str, ...]
    recalled: tuple[str, ...]
    """Of earlier runs."""
    void: str | None
    parent: Turn | None
    best: Turn | None
    best_line: str | None
    """Which version is the best, where that is not the parent."""
    style: str = "strong"
    guide: bool = False
    tools: str = ""
    """What is said of tools that can be called in blocks of a reply; empty where there are none."""
    candidates: int = 1
    """How many files a reply may hold."""
    cut: tuple[str, ...] = ()


def draft_of(
    facts: ProblemFacts,
    device: DeviceFacts,
    history: History,
    request: TurnRequest,
    style: str = "strong",
    tools: str = "",
    candidates: int = 1,
) -> Draft:
    """The whole prompt for `request`, nothing left out yet."""
    seen = frozenset(request.window)
    shown = [_shown(history.turn(i)) for i in request.window if history.turn(i).reply is not None]
    others = [t for t in history.finished if t.evaluation and t.index not in seen]
    parent = None if request.parent is None else history.turn(request.parent)
    return Draft(
        facts=facts,
        device=device,
        request=request,
        source=facts.source.strip(),
        shown=tuple(shown),
        summaries=tuple(summary(turn) for turn in others[-_SUMMARIES:]),
        lessons=tuple(lessons(history, seen)),
        recalled=tuple(item.words for item in request.recalled),
        void=_last_void(history, request.trajectory, seen),
        parent=parent,
        best=history.best,
        best_line=best_line(parent, history),
        style=style,
        guide=style == "small",
        tools=tools,
        candidates=candidates,
    )


def messages_of(draft: Draft) -> tuple[Message, ...]:
    """The task, then each shown turn as reply and feedback, then what is asked now."""
    if draft.style not in STYLES:
        return _of_templates(draft)
    task = _text("task.md.j2", **_task_fields(draft))
    if draft.guide:
        task = f"{task}\n\n{_text('guide.md.j2')}"
    if draft.tools:
        task = f"{task}\n\n{draft.tools}"
    messages = [Message("system", _text("system.md.j2")), Message("user", task)]
    for turn in draft.shown:
        messages.append(Message("assistant", turn.reply))
        messages.append(Message("user", turn.feedback))
    now = _text("now.md.j2", **_of_the_parent(draft), **_now_fields(draft))
    messages[-1] = Message("user", f"{messages[-1].content}\n\n{now}")
    return tuple(messages)


def _of_the_parent(draft: Draft) -> dict[str, object]:
    """How what is to be made faster stands: whether it has a time, what is left to gain, and what is better."""
    judged = None if draft.parent is None else draft.parent.evaluation
    headroom = None if judged is None else judged.headroom
    turn = None if draft.parent is None else draft.parent.index
    return {
        "version": "The last version" if turn is None else f"The version of turn {turn}",
        "priced": judged is None or judged.estimate is not None or judged.timing is not None,
        "at_the_bound": headroom is not None and headroom.left < NOTHING_LEFT,
        "best_line": draft.best_line,
    }


def _now_fields(draft: Draft) -> dict[str, object]:
    return {
        "request": draft.request,
        "style": draft.style,
        "parent": draft.parent,
        "best": draft.best,
        "void": draft.void,
        "summaries": draft.summaries,
        "lessons": draft.lessons,
        "recalled": draft.recalled,
        "cut": draft.cut,
    }


def _of_templates(draft: Draft) -> tuple[Message, ...]:
    """The same from the user's templates: the first message, then each shown turn's reply and what follows it."""
    templates = user_templates(draft.style)
    fields = {**_now_fields(draft), **_task_fields(draft)}
    fields["task"] = _text("task.md.j2", **fields)
    messages = templates.opening(fields)
    for at, shown in enumerate(draft.shown, 1):
        messages.append(Message("assistant", shown.reply))
        data = None if shown.evaluation is None else to_data(shown.evaluation)
        about: dict[str, object] = {
            "turn": shown.turn,
            "reply": shown.reply,
            "feedback": shown.feedback,
        }
        about["last"] = at == len(draft.shown)
        following = templates.following({**fields, **about, "evaluation": data})
        messages.append(Message("user", following))
    return tuple(messages)


def _task_fields(draft: Draft) -> dict[str, object]:
    """What `task.md.j2` says; for small models without costs and the notes on Triton."""
    facts, device = draft.facts, draft.device
    costs = draft.style != "small"
    return {
        "facts": facts,
        "device": device,
        "source": draft.source,
        "costs": costs,
        "strides": stride_lines(facts),
        "tools": draft.tools,
        "candidates": draft.candidates,
        "executed": executed_lines(facts) if costs else [],
        "device_costs": device_lines(device) if costs else [],
        "reference": reference_lines(facts) if costs else [],
        "tolerances": tolerance_lines(facts) if costs else [],
    }


def tools_text(tools: Sequence[Tool], calls: int, seconds: float) -> str:
    """What a writer that calls tools in blocks is told of them, and how much it may ask before each turn."""
    limits = f" (at most {calls} questions before each turn, and {seconds:g} s of work for them)"
    return _text("tools.md.j2", tools=tools, limits=limits)


def tells_of_tools_in(text: str) -> bool:
    """Whether a message tells of tools in words."""
    return _text("tools.md.j2", tools=(), limits="").partition(".")[0] in text


def tells_of_tools(style: str) -> bool:
    """Whether prompts of this style can tell of tools in words; those for small models are to stay short."""
    return style != "small" and (style in STYLES or user_templates(style).tells_of_tools)


@cache
def prompts_version(style: str = "strong") -> str:
    """Number of the wording and a hash over every template: what a log names its prompts by.

    Of the user's own templates: `own` and their hash.
    """
    if style not in STYLES:
        return user_templates(style).version
    digest = hashlib.sha256()
    for path in sorted(_TEMPLATES.glob("*.j2")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"{_WORDING}-{digest.hexdigest()[:8]}"


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )


def _text(template: str, **facts: object) -> str:
    return _environment().get_template(template).render(**facts).strip()


def _shown(turn: Turn) -> Shown:
    line = summary(turn) if turn.evaluation is not None else None
    source = None if turn.candidate is None else turn.candidate.source
    return Shown(turn.index, turn.reply or "", turn.feedback, line, turn.evaluation, source)


def _last_void(history: History, trajectory: int, seen: frozenset[int]) -> str | None:
    """Why the last reply of this conversation held nothing to evaluate, when the window does not tell."""
    last = next((t for t in reversed(history.turns) if t.request.trajectory == trajectory), None)
    return last.void if last is not None and last.index not in seen else None
