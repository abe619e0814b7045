"""Calls of tools in the text of a reply: fenced blocks that have a tool's name in the place of a language.

Behind the name stand the arguments as `key=value`; the block itself is the code. Values are texts, whole
numbers, or lists with commas under the keys of the one argument that is an object.
"""

from __future__ import annotations

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
    try:
        given = [word.partition("=") for word in shlex.split(block.info)]
    except ValueError as error:
        return ToolCall(tool.name, unread=f"{error}: {block.info}")
    odd = [key for key, equals, _ in given if not equals]
    if odd:
        return ToolCall(tool.name, unread=f"write key=value behind the name, not {odd[0]}")
    arguments = _arguments(tool, {key: value for key, _, value in given})
    if tool.takes_code and block.text.strip():
        arguments["code"] = f"{block.text.strip()}\n"
    return ToolCall(tool.name, arguments)


def _arguments(tool: Tool, given: dict[str, str]) -> dict[str, Any]:
    """By the tool's arguments; what belongs to none is a key of its object, if it takes one."""
    known = {argument.name: argument for argument in tool.arguments}
    nested = next((a.name for a in tool.arguments if a.kind == "object"), None)
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
