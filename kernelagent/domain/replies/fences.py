"""Fenced blocks of a reply, closed or not."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)([^\n]*)$", re.MULTILINE)
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_UNCLOSED_THINKING = re.compile(
    r"<(think|thinking|reasoning)>(?!.*</\1>).*", re.DOTALL | re.IGNORECASE
)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    info: str
    """What stands behind the language, in the same line."""
    text: str
    closed: bool


def without_thinking(reply: str) -> str:
    """The reply without the thoughts that stand in it."""
    return _UNCLOSED_THINKING.sub("", _THINKING.sub("", reply))


def blocks_in(text: str) -> list[Block]:
    """In their order; a fence with a language, inside an open block, ends that block unclosed."""
    blocks: list[Block] = []
    opened: re.Match[str] | None = None

    def end(at: int, *, closed: bool) -> None:
        if opened is not None:
            inside = text[opened.end() + 1 : at]
            blocks.append(Block(opened[2].lower(), opened[3].strip(), inside, closed))

    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1][0] == opened[1][0] and len(fence[1]) >= len(opened[1]) and not fence[2]:
            end(fence.start(), closed=True)
            opened = None
        elif fence[2]:
            end(fence.start(), closed=False)
            opened = fence
    end(len(text), closed=False)
    return blocks
