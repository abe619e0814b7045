"""Messages as Markdown and as a hash, and the first difference between two conversations."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import zip_longest

from kernelagent.domain.history import Message
from kernelagent.domain.serialization import to_json

_SHOWN = 80
"""Characters of a differing line that are quoted."""


def prompt_hash(messages: Sequence[Message]) -> str:
    """SHA-256 of the messages as JSON."""
    return hashlib.sha256(to_json(list(messages))).hexdigest()


def as_markdown(messages: Sequence[Message]) -> str:
    """Every message under a heading with its role, in the order in which they are sent."""
    return "\n".join(f"## {message.role}\n\n{message.content}\n" for message in messages)


def first_difference(recorded: Sequence[Message], now: Sequence[Message]) -> str | None:
    """Where two conversations differ first: message, role, line and both lines; None: nowhere."""
    for number, (before, after) in enumerate(zip_longest(recorded, now), 1):
        if before == after:
            continue
        if before is None:
            return f"message {number} ({after.role}) is new, the recording ends before it"
        if after is None:
            return f"message {number} ({before.role}) of the recording is not there"
        if before.role != after.role:
            return f"message {number} is {after.role}, in the recording {before.role}"
        return f"message {number} ({after.role}), {_line(before.content, after.content)}"
    return None


def _line(before: str, after: str) -> str:
    pairs = zip_longest(before.splitlines(), after.splitlines())
    for number, (old, new) in enumerate(pairs, 1):
        if old != new:
            return f"line {number}: {_quoted(new)}, in the recording {_quoted(old)}"
    return "only its line ends"


def _quoted(line: str | None) -> str:
    if line is None:
        return "nothing"
    return repr(line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…")
