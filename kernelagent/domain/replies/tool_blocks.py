"""Calls of tools in the text of a reply: fenced blocks that have a tool's name in the place of a language.

Behind the name stand the arguments as `key=value`; the block itself is the code. Values are texts, whole
numbers, or lists with commas under the keys of the one argument that is an object, which may be written as JSON.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from kernelagent.domain.replies.fences import Block, blocks_in, without_thinking
from kernelagent.domain.replies.tool_calls import ToolCall
from kernelagent.domain.replies.tool_registry import TOOLS, Argument, Tool

_WHOLE = re.compile(r"-?\d+")


def calls_in(reply: str) -> tuple[ToolCall, ...]:
    """The calls of a reply, in their order; none where it calls nothing."""
    blocks = blocks_in(without_thinking(reply))
    return tuple(_call(block) for block in blocks if block.language in TOOLS)


def _call(block: Block) -> ToolCall:
    tool = TOOLS[block.language]
    if not block.closed:
        return ToolCall(tool.name, unread="the block is not closed")
    nested = next((a.name for a in tool.arguments if a.kind == "object"), None)
    try:
        info, whole = _without_json(block.info, nested)
        given = [word.partition("=") for word in shlex.split(info)]
    except ValueError as error:
        return ToolCall(tool.name, unread=f"{error}: {block.info}")
    odd = [key for key, equals, _ in given if not equals]
    if odd:
        return ToolCall(tool.name, unread=f"write key=value behind the name, not {odd[0]}")
    arguments = _arguments(tool, nested, {key: value for key, _, value in given})
    if nested is not None and whole:
        arguments[nested] = {**whole, **arguments.get(nested, {})}
    if tool.takes_code and block.text.strip():
        arguments["code"] = f"{block.text.strip()}\n"
    return ToolCall(tool.name, arguments)


def _without_json(info: str, name: str | None) -> tuple[str, dict[str, Any]]:
    """What is left of the line, and the object of this name in it; raises `ValueError` where it is no JSON."""
    begins = re.search(rf"(?:^|\s){re.escape(name)}=(?=\{{)", info) if name is not None else None
    if begins is None:
        return info, {}
    value, ends = json.JSONDecoder().raw_decode(info, begins.end())
    return f"{info[: begins.start()]} {info[ends:]}", value


def _arguments(tool: Tool, nested: str | None, given: dict[str, str]) -> dict[str, Any]:
    """By the tool's arguments; what belongs to none is a key of its object, `nested`, if it takes one."""
    known = {argument.name: argument for argument in tool.arguments}
    arguments: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known and nested is not None:
            arguments.setdefault(nested, {})[key] = [_value(item) for item in value.split(",")]
        else:
            arguments[key] = _of_kind(value, known.get(key))
    return arguments


def _of_kind(value: str, argument: Argument | None) -> str | int:
    return _value(value) if argument is not None and argument.kind == "integer" else value


def _value(text: str) -> str | int:
    return int(text) if _WHOLE.fullmatch(text) else text
