"""A reply as it arrives: pieces from the wire, put together, thinking apart from the answer.

litellm's own chunks cost half a millisecond each and are all kept until the end. Where litellm talks
to an OpenAI-compatible endpoint, its server-sent events are therefore read here, a line at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelagent.domain.replies.tool_calls import ToolCall
from kernelagent.models.endpoint.called import CallPiece, Calls, pieces_in, pieces_of_object
from kernelagent.models.endpoint.faults import StreamFault

_OPENAI_HANDLERS = frozenset(
    {"OpenAIChatCompletionStreamingHandler", "HostedVLLMChatCompletionStreamingHandler"}
)
_THINKING = re.compile(r"\s*<(think|thinking|reasoning)>(.*?)</\1>\s*", re.DOTALL | re.IGNORECASE)
_END_OF_THINKING = re.compile(r"</(?:think|thinking|reasoning)>\s*", re.IGNORECASE)
_COUNTED_AT_ONCE = 400
"""Characters: about a hundred tokens, so that a budget is overrun by no more than that."""


@dataclass(frozen=True)
class Piece:
    """What one chunk brought."""

    text: str = ""
    thinking: str = ""
    finish: str | None = None
    usage: Mapping[str, Any] | None = None
    calls: tuple[CallPiece, ...] = ()


@dataclass
class Arrived:
    """All that has come of a reply so far."""

    count: Callable[[str], int]
    """Tokens in a text."""
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    finish: str | None = None
    """None: no end has been announced yet."""
    usage: Mapping[str, Any] | None = None
    _calls: Calls = field(default_factory=Calls)
    _uncounted: list[str] = field(default_factory=list)
    _uncounted_length: int = 0
    _tokens: int = 0

    def take(self, piece: Piece) -> None:
        self.finish = piece.finish or self.finish
        self.usage = piece.usage or self.usage
        for new, kept in ((piece.text, self.texts), (piece.thinking, self.thoughts)):
            if new:
                kept.append(new)
                self._note(new)
        for part in piece.calls:
            self._calls.take(part)
            self._note(part.name + part.arguments)
        if self._uncounted_length >= _COUNTED_AT_ONCE:
            self._count()

    def _note(self, text: str) -> None:
        self._uncounted.append(text)
        self._uncounted_length += len(text)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools that it calls; none of a reply whose end was not announced."""
        return self._calls.all() if self.finish is not None else ()

    @property
    def tokens(self) -> int:
        """Tokens that have come for certain; up to a hundred more may be uncounted."""
        return self._tokens

    def all_tokens(self) -> int:
        """Tokens of everything that has come, by the tokenizer."""
        self._count()
        return self._tokens

    def _count(self) -> None:
        if self._uncounted:
            self._tokens += self.count("".join(self._uncounted))
        self._uncounted.clear()
        self._uncounted_length = 0

    @property
    def any(self) -> bool:
        """Whether there is answer text; thinking alone does not count."""
        return any(text.strip() for text in self.texts)

    def parts(self) -> tuple[str, str]:
        """The answer, and the thinking wherever the endpoint put it."""
        inside, text = split_thinking("".join(self.texts))
        thinking = "\n".join(part for part in ("".join(self.thoughts), inside) if part)
        # Where litellm has taken the tags out, the empty lines after them are still there.
        return (text.lstrip("\n") if thinking else text), thinking


def split_thinking(text: str) -> tuple[str, str]:
    """Thinking that stands in the text, tags taken off, and the answer after it.

    Some servers open the tag in their template, so that only its end arrives.
    """
    result = _THINKING.match(text)
    if result is not None:
        return result[2].strip(), text[result.end() :]
    end = _END_OF_THINKING.search(text)
    if end is not None and not re.search(r"<(think|thinking|reasoning)>", text, re.IGNORECASE):
        return text[: end.start()].strip(), text[end.end() :]
    return "", text


def pieces_of(stream: Any) -> Iterator[Piece]:
    """The pieces of a stream that `litellm.completion` returned; raises `StreamFault` on garbage."""
    lines = _event_lines(stream)
    return _from_lines(lines) if lines is not None else _from_chunks(stream)


def piece_of_whole(response: Any) -> Piece:
    """A reply that did not stream."""
    choice = response.choices[0]
    return Piece(
        text=choice.message.content or "",
        thinking=getattr(choice.message, "reasoning_content", None) or "",
        finish=choice.finish_reason or "stop",
        usage=usage_of(response),
        calls=pieces_of_object(choice.message),
    )


def usage_of(response: Any) -> Mapping[str, Any] | None:
    """Tokens and, where the provider says it, dollars; None where it says nothing."""
    usage = getattr(response, "usage", None)
    if usage is None:
        return None
    data: dict[str, Any] = usage.model_dump() if hasattr(usage, "model_dump") else dict(usage)
    return data if data.get("prompt_tokens") or data.get("completion_tokens") else None


def close(stream: Any) -> None:
    """Hang up, so that the endpoint stops writing what is not read."""
    inner = getattr(stream, "completion_stream", stream)
    for part in (
        getattr(inner, "response", None),
        getattr(inner, "streaming_response", None),
        inner,
    ):
        hang_up = getattr(part, "close", None)
        if callable(hang_up):
            hang_up()
            return


def _event_lines(stream: Any) -> Iterable[str] | None:
    inner = getattr(stream, "completion_stream", None)
    response: Any = getattr(inner, "response", None)
    if type(inner).__module__.partition(".")[0] == "openai" and hasattr(response, "iter_lines"):
        lines: Iterable[str] = response.iter_lines()
        return lines
    if type(inner).__name__ in _OPENAI_HANDLERS:
        return getattr(inner, "streaming_response", None)
    return None


def _from_lines(lines: Iterable[str]) -> Iterator[Piece]:
    for line in lines:
        if not line.startswith("data:"):
            continue
        payload = line[5:].strip()
        if payload == "[DONE]":
            return
        yield _from_event(_event(payload))


def _event(payload: str) -> dict[str, Any]:
    try:
        event = json.loads(payload)
    except ValueError as error:
        raise StreamFault(f"the stream holds a chunk that is no JSON: {payload[:60]!r}") from error
    if not isinstance(event, dict):
        raise StreamFault(f"the stream holds a chunk that is no object: {payload[:60]!r}")
    if event.get("error"):
        message = event["error"]
        raise StreamFault(str(message.get("message") if isinstance(message, dict) else message))
    return event


def _from_event(event: Mapping[str, Any]) -> Piece:
    usage = event.get("usage") or None
    choices = event.get("choices") or None
    if choices is None:
        return Piece(usage=usage)
    try:
        delta = choices[0].get("delta") or {}
        thinking = delta.get("reasoning_content") or delta.get("reasoning") or ""
        refusal = delta.get("refusal")
        finish = choices[0].get("finish_reason")
        calls = pieces_in(delta)
    except (AttributeError, LookupError, TypeError) as error:
        raise StreamFault(f"the stream holds a chunk of another shape: {error}") from error
    return Piece(
        text=delta.get("content") or refusal or "",
        thinking=thinking if isinstance(thinking, str) else "",
        finish="content_filter" if refusal else finish,
        usage=usage,
        calls=calls,
    )


def _from_chunks(stream: Any) -> Iterator[Piece]:
    """Providers with a protocol of their own, as litellm translates them."""
    for chunk in stream:
        choices = getattr(chunk, "choices", None)
        delta = choices[0].delta if choices else None
        finish = choices[0].finish_reason if choices else None
        if finish is not None and getattr(stream, "received_finish_reason", finish) is None:
            # litellm says `stop` also where the stream broke off without a word.
            finish = None
        yield Piece(
            text=getattr(delta, "content", None) or "",
            thinking=getattr(delta, "reasoning_content", None) or "",
            finish=finish,
            usage=usage_of(chunk),
            calls=pieces_of_object(delta),
        )
