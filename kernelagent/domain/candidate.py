"""A reply becomes a candidate: the source of one Python file that defines `ModelNew`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from kernelagent.domain.replies.fences import Block, blocks_in, without_thinking
from kernelagent.domain.replies.parsing import parse
from kernelagent.domain.replies.tool_registry import TOOLS

ENTRY_POINT = "ModelNew"
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


def parse_candidates(
    reply: str, finish: str = "stop", most: int = 1
) -> tuple[Candidate, ...] | NoCandidate:
    """The last `most` different candidates of a reply, in the reply's order; with `most` = 1 that of `parse_reply`.

    With more, every closed code block is a candidate, even if the reply was cut off after it.
    """
    item = parse_reply(reply, finish)
    whole = [] if isinstance(item, NoCandidate) else [item]
    if most > 1 and finish != "refused":
        blocks = _candidates(blocks_in(without_thinking(reply)))
        whole = [*(_of(block) for block in blocks if block.closed), *whole]
    different = tuple(dict.fromkeys(whole))[-most:]
    return different if different or isinstance(item, Candidate) else item


def _of(block: Block) -> Candidate:
    return Candidate(block.text.strip("\n") + "\n")


def _parsed(reply: str) -> Candidate | NoCandidate:
    text = without_thinking(reply).strip()
    if not text:
        return NoCandidate("the reply is empty once its thinking is left out; write the code")
    blocks = blocks_in(text)
    usable = _candidates(blocks)
    if not usable:
        return _without_fence(text, blocks)
    block = usable[-1]
    if not block.closed and not _parses(block.text):
        return NoCandidate(
            "the code block is not closed and ends in the middle of the code: the reply was cut "
            "off; send the whole file again, shorter"
        )
    return _of(block)


def _whole_block(reply: str, why: str) -> Candidate | NoCandidate:
    blocks = blocks_in(without_thinking(reply))
    whole = [block for block in _candidates(blocks) if block.closed]
    return _of(whole[-1]) if whole else NoCandidate(why)


def _without_fence(text: str, blocks: list[Block]) -> Candidate | NoCandidate:
    if not blocks and _DEFINES.search(text) and _parses(text):
        return Candidate(text.strip("\n") + "\n")
    asked = [block.language for block in blocks if block.language in TOOLS]
    if asked:
        return NoCandidate(
            f"the reply only asks the tool `{asked[-1]}`, which is not answered any more; send the complete "
            f"file in one ```python block"
        )
    if any(block.language in {"", "python", "py", "python3"} for block in blocks):
        return NoCandidate(
            f"no fenced code block defines `class {ENTRY_POINT}`; send one Python block with the "
            f"complete file"
        )
    return NoCandidate(
        "the reply holds no Python code block; send the complete file in one ```python block"
    )


def _candidates(blocks: list[Block]) -> list[Block]:
    """The blocks that define the entry point; one in a tool's name was a question about it."""
    return [b for b in blocks if b.language not in TOOLS and _DEFINES.search(b.text) is not None]


def _parses(source: str) -> bool:
    try:
        parse(source)
    except (SyntaxError, ValueError):
        return False
    return True
