"""A reply becomes a candidate: the source of one Python file that defines `ModelNew`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from kernelagent.domain.parsing import parse

ENTRY_POINT = "ModelNew"
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*$", re.MULTILINE)
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_UNCLOSED_THINKING = re.compile(
    r"<(think|thinking|reasoning)>(?!.*</\1>).*", re.DOTALL | re.IGNORECASE
)
_DEFINES = re.compile(rf"^class\s+{ENTRY_POINT}\b", re.MULTILINE)

_BROKEN_OFF = {
    "lost": "the connection was lost in mid-reply, before a whole candidate had arrived",
    "budget": "the reply was stopped when it had spent the budget, before a whole candidate",
}


@dataclass(frozen=True)
class Candidate:
    """Source text as the model wrote it."""

    source: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def id(self) -> str:
        """Short name of this source, used in file names and commits."""
        return self.sha256[:12]


@dataclass(frozen=True)
class NoCandidate:
    """A reply without code that could be evaluated; `why` is told to the model."""

    why: str


@dataclass(frozen=True)
class _Block:
    language: str
    text: str
    closed: bool

    @property
    def defines_entry_point(self) -> bool:
        return _DEFINES.search(self.text) is not None


def parse_reply(reply: str, finish: str = "stop") -> Candidate | NoCandidate:
    """The last fenced block that defines `ModelNew`; a bare Python reply counts as one block.

    `finish`: how the reply ended; of one that broke off only a block that was closed is whole.
    """
    if finish in _BROKEN_OFF:
        return _whole_block(reply, _BROKEN_OFF[finish])
    if finish == "refused":
        message = reply.strip().partition("\n")[0][:200]
        return NoCandidate(f"the model refused to answer{f': {message}' if message else ''}")
    parsed = _parsed(reply)
    if finish == "length" and isinstance(parsed, NoCandidate):
        return NoCandidate(
            "the reply was cut off at its longest length, before the code was complete; send the "
            "whole file again, shorter"
        )
    return parsed


def _parsed(reply: str) -> Candidate | NoCandidate:
    text = _UNCLOSED_THINKING.sub("", _THINKING.sub("", reply)).strip()
    if not text:
        return NoCandidate("the reply is empty once its thinking is left out; write the code")
    blocks = _blocks(text)
    usable = [block for block in blocks if block.defines_entry_point]
    if not usable:
        return _without_fence(text, blocks)
    block = usable[-1]
    if not block.closed and not _parses(block.text):
        return NoCandidate(
            "the code block is not closed and ends in the middle of the code: the reply was cut "
            "off; send the whole file again, shorter"
        )
    return Candidate(block.text.strip("\n") + "\n")


def _whole_block(reply: str, why: str) -> Candidate | NoCandidate:
    text = _UNCLOSED_THINKING.sub("", _THINKING.sub("", reply))
    whole = [block for block in _blocks(text) if block.closed and block.defines_entry_point]
    return Candidate(whole[-1].text.strip("\n") + "\n") if whole else NoCandidate(why)


def _without_fence(text: str, blocks: list[_Block]) -> Candidate | NoCandidate:
    if not blocks and _DEFINES.search(text) and _parses(text):
        return Candidate(text.strip("\n") + "\n")
    if any(block.language in {"", "python", "py", "python3"} for block in blocks):
        return NoCandidate(
            f"no fenced code block defines `class {ENTRY_POINT}`; send one Python block with the "
            f"complete file"
        )
    return NoCandidate(
        "the reply holds no Python code block; send the complete file in one ```python block"
    )


def _blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1][0] == opened[1][0] and len(fence[1]) >= len(opened[1]) and not fence[2]:
            blocks.append(_Block(opened[2].lower(), text[opened.end() + 1 : fence.start()], True))
            opened = None
        elif fence[2]:
            # A new opening fence while one is open: the first was never closed.
            blocks.append(_Block(opened[2].lower(), text[opened.end() + 1 : fence.start()], False))
            opened = fence
    if opened is not None:
        blocks.append(_Block(opened[2].lower(), text[opened.end() + 1 :], False))
    return blocks


def _parses(source: str) -> bool:
    try:
        parse(source)
    except (SyntaxError, ValueError):
        return False
    return True
