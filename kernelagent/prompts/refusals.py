"""A refusal in the words of a prompt: without what its reader cannot do anything about."""

from __future__ import annotations

import re

from kernelagent.domain.evaluation import Reason

_OF_LIMITS = ("unverifiable", "timeout")
_PART, _FLAG = re.compile(r"(?<=[;.?]) "), re.compile(r"--[a-z]")


def for_the_writer(reason: Reason) -> str:
    """The message; of a limit without the flags by which the user, and nobody else, can raise it."""
    if reason.code not in _OF_LIMITS:
        return reason.message
    parts = [part for part in _PART.split(reason.message) if not _FLAG.search(part)]
    return " ".join(parts).removesuffix(";") or reason.message


def of_a_tool(reason: Reason) -> tuple[str, str]:
    """Code and message of what ended a call of a tool; where its time did, that this tells nothing of the file."""
    if reason.detail.get("means") == "time":
        seconds = reason.detail.get("limit_s")
        known = f" ({seconds:.1f} s)" if isinstance(seconds, int | float) else ""
        return "no time", f"the time for this call{known} was not enough; nothing was found wrong"
    return reason.code, for_the_writer(reason)
