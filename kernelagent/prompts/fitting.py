"""What is left out of a prompt, and in which order, when the model's window is too tight for all of it.

1. the oldest turns shown become one line each; the parent and the last turn stay
2. those lines, oldest first
3. what earlier runs taught, the least fitting first
4. lessons of earlier rejections
5. the prose of replies around their code
6. the worked example for small models
7. the parent, where it is not the last turn
8. the code of the last reply, from its middle
9. the last findings, from their middle
10. the module's source, from its middle

From 8 on the text itself says what is missing; from 1 on the last message does, and the caller is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.errors import PromptTooLong
from kernelagent.domain.history import Message
from kernelagent.prompts.draft import Draft, Shown, messages_of
from kernelagent.prompts.tokens import Count, estimate_tokens, prompt_tokens

_LEAST_LINES = 6
"""A text is never shortened to fewer lines than these."""


@dataclass(frozen=True)
class FittedPrompt:
    """What is sent, how long it is, and what had to be left out."""

    messages: tuple[Message, ...]
    tokens: int
    cut: tuple[str, ...] = ()
    shown: tuple[int, ...] = ()
    """The turns of the window that are still shown whole, or nearly so."""


def fit(draft: Draft, max_tokens: int | None, count: Count = estimate_tokens) -> FittedPrompt:
    """The longest prompt of at most `max_tokens`; raises `PromptTooLong` when there is none."""
    fitted = _fitted(draft, count)
    for smaller in _smaller(draft):
        if max_tokens is None or fitted.tokens <= max_tokens:
            return fitted
        fitted = _fitted(smaller, count)
    if max_tokens is None or fitted.tokens <= max_tokens:
        return fitted
    raise PromptTooLong(
        f"the shortest prompt for {draft.facts.name} takes {fitted.tokens} tokens, and the model's "
        f"window leaves {max_tokens}; use a model with a larger window, or --submodule for a part",
        shortest=fitted.tokens,
    )


def _fitted(draft: Draft, count: Count) -> FittedPrompt:
    messages = messages_of(draft)
    shown = tuple(turn.turn for turn in draft.shown)
    return FittedPrompt(messages, prompt_tokens(messages, count), draft.cut, shown)


def _smaller(draft: Draft) -> Iterator[Draft]:
    """Ever shorter drafts, in the order of this module's docstring."""
    for step in (
        _turns,
        _summaries,
        _recalled,
        _lessons,
        _prose,
        _guide,
        _parent,
        _code,
        _findings,
        _source,
    ):
        for draft in step(draft):  # noqa: B020 - each step goes on from where the last one ended
            yield draft


def _turns(draft: Draft) -> Iterator[Draft]:
    kept = {draft.request.parent, draft.shown[-1].turn} if draft.shown else set()
    for turn in draft.shown:
        if turn.turn not in kept:
            draft = _without(draft, turn)
            yield draft


def _summaries(draft: Draft) -> Iterator[Draft]:
    for left in range(len(draft.summaries) - 1, -1, -1):
        kept = draft.summaries[len(draft.summaries) - left :]
        yield _with_cut(replace(draft, summaries=kept), "the oldest one-line summaries")


def _recalled(draft: Draft) -> Iterator[Draft]:
    for left in range(len(draft.recalled) - 1, -1, -1):
        yield _with_cut(replace(draft, recalled=draft.recalled[:left]), "hints of earlier runs")


def _lessons(draft: Draft) -> Iterator[Draft]:
    for left in range(len(draft.lessons) - 1, -1, -1):
        kept = draft.lessons[len(draft.lessons) - left :]
        yield _with_cut(replace(draft, lessons=kept), "lessons of earlier rejections")


def _prose(draft: Draft) -> Iterator[Draft]:
    bare = tuple(replace(turn, reply=_code_only(turn)) for turn in draft.shown)
    if bare != draft.shown:
        yield _with_cut(replace(draft, shown=bare), "what your replies said around their code")


def _guide(draft: Draft) -> Iterator[Draft]:
    if draft.guide:
        yield _with_cut(replace(draft, guide=False), "the worked example")


def _parent(draft: Draft) -> Iterator[Draft]:
    for turn in draft.shown[:-1]:
        draft = _without(draft, turn)
        yield replace(draft, summaries=draft.summaries[:-1]) if turn.summary else draft


def _code(draft: Draft) -> Iterator[Draft]:
    for last in draft.shown[-1:]:
        for shorter in _shortened(last.reply):
            shown = (*draft.shown[:-1], replace(last, reply=shorter))
            yield _with_cut(replace(draft, shown=shown), "the middle of your last reply")


def _findings(draft: Draft) -> Iterator[Draft]:
    for last in draft.shown[-1:]:
        for shorter in _shortened(last.feedback):
            shown = (*draft.shown[:-1], replace(last, feedback=shorter))
            yield _with_cut(replace(draft, shown=shown), "the middle of the last findings")


def _source(draft: Draft) -> Iterator[Draft]:
    for shorter in _shortened(draft.source, mark="# "):
        yield _with_cut(replace(draft, source=shorter), "the middle of the module's source")


def _without(draft: Draft, turn: Shown) -> Draft:
    kept = tuple(other for other in draft.shown if other is not turn)
    lines = draft.summaries if turn.summary is None else (*draft.summaries, turn.summary)
    return _with_cut(replace(draft, shown=kept, summaries=lines), f"turn {turn.turn}")


def _with_cut(draft: Draft, what: str) -> Draft:
    return draft if what in draft.cut else replace(draft, cut=(*draft.cut, what))


def _code_only(turn: Shown) -> str:
    """What was judged, which need not be the last file of the reply."""
    if turn.source is not None:
        return f"```python\n{turn.source}```"
    parsed = parse_reply(turn.reply)
    return f"```python\n{parsed.source}```" if isinstance(parsed, Candidate) else turn.reply


def _shortened(text: str, mark: str = "") -> Iterator[str]:
    """`text` with ever more lines taken out of its middle, and one line that says how many."""
    lines = text.splitlines()
    kept = len(lines) * 3 // 4
    while kept >= _LEAST_LINES:
        head = lines[: kept - kept // 2]
        tail = lines[len(lines) - kept // 2 :]
        gone = len(lines) - kept
        yield "\n".join([*head, f"{mark}[... {gone} lines left out to fit your window ...]", *tail])
        kept = kept * 3 // 4
