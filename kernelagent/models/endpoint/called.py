"""Tools as functions of an API: how they are offered, read from a reply as it arrives, and answered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelagent.domain.replies.tool_calls import ToolCall, ToolRound
from kernelagent.domain.replies.tool_registry import Tool


@dataclass(frozen=True)
class CallPiece:
    """What one chunk brought of a call; pieces of one call have one place."""

    place: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class Calls:
    """The calls of a reply, put together from their pieces."""

    _pieces: dict[int, list[CallPiece]] = field(default_factory=dict)

    def take(self, piece: CallPiece) -> None:
        self._pieces.setdefault(piece.place, []).append(piece)

    def all(self) -> tuple[ToolCall, ...]:
        """Every call in its order, whether or not its arguments can be read."""
        return tuple(_call(place, pieces) for place, pieces in sorted(self._pieces.items()))


def offered(tools: Sequence[Tool], *, used_up: bool) -> dict[str, Any]:
    """The parameters that offer the tools; what was called before must stay known to the endpoint."""
    functions = [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": t.schema},
        }
        for t in tools
    ]
    return {"tools": functions, "tool_choice": "none" if used_up else "auto"}


def messages_of(rounds: Iterable[ToolRound]) -> list[dict[str, Any]]:
    """The calls and their answers as messages of the conversation."""
    messages: list[dict[str, Any]] = []
    for number, item in enumerate(rounds):
        names = [call.id or f"call-{number}-{at}" for at, call in enumerate(item.calls)]
        calls = [
            {
                "id": name,
                "type": "function",
                "function": {"name": call.tool, "arguments": _arguments(call)},
            }
            for name, call in zip(names, item.calls, strict=True)
        ]
        messages.append({"role": "assistant", "content": item.said or None, "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_call_id": name, "content": answer}
            for name, answer in zip(names, item.answers, strict=True)
        ]
    return messages


def pieces_in(delta: Mapping[str, Any]) -> tuple[CallPiece, ...]:
    """Of a chunk as JSON; raises `AttributeError` or `TypeError` on another shape."""
    return tuple(
        _piece(at, call.get("index"), call.get("id"), call.get("function") or {})
        for at, call in enumerate(delta.get("tool_calls") or ())
    )


def pieces_of_object(message: Any) -> tuple[CallPiece, ...]:
    """Of a message or a chunk as litellm makes it."""
    return tuple(
        _piece(
            at,
            getattr(call, "index", None),
            call.id,
            {"name": call.function.name, "arguments": call.function.arguments},
        )
        for at, call in enumerate(getattr(message, "tool_calls", None) or ())
    )


def _piece(at: int, index: Any, name: Any, function: Mapping[str, Any]) -> CallPiece:
    arguments = function.get("arguments") or ""
    return CallPiece(
        index if isinstance(index, int) else at,
        str(name or ""),
        str(function.get("name") or ""),
        arguments if isinstance(arguments, str) else json.dumps(arguments),
    )


def _call(place: int, pieces: Sequence[CallPiece]) -> ToolCall:
    first = next((piece.id for piece in pieces if piece.id), f"call-{place}")
    name = "".join(piece.name for piece in pieces)
    text = "".join(piece.arguments for piece in pieces)
    try:
        arguments = json.loads(text) if text.strip() else {}
    except ValueError as error:
        return ToolCall(name, {}, first, f"they are no JSON ({error}): {text}")
    if not isinstance(arguments, dict):
        return ToolCall(name, {}, first, f"they are no JSON object: {text}")
    return ToolCall(name, arguments, first)


def _arguments(call: ToolCall) -> str:
    return json.dumps(call.arguments)
