"""What an endpoint can be asked for, learnt from its refusals once and remembered for the run.

No ask carries `n`: several answers are several asks side by side, which every endpoint can do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from kernelagent.domain.history import Message

_SYSTEM = re.compile(
    r"system.{0,20}(role|message|prompt|instruction)|(role|message).{0,40}system"
    r"|roles must alternate",
    re.IGNORECASE,
)
_STREAM_OPTIONS = re.compile(r"stream_options|include_usage", re.IGNORECASE)
_STREAM = re.compile(r"stream", re.IGNORECASE)
_TEMPERATURE = re.compile(r"temperature", re.IGNORECASE)
_TOOLS = re.compile(r"tool|function", re.IGNORECASE)
_MAX = re.compile(r"max_(completion_)?tokens", re.IGNORECASE)


@dataclass(frozen=True)
class Capabilities:
    """Everything is expected of an endpoint until it refuses."""

    system_role: bool = True
    temperature: bool = True
    stream: bool = True
    stream_options: bool = True
    tools: bool = True
    """Functions that a reply may call."""
    limit: Literal["max_tokens", "max_completion_tokens"] | None = "max_tokens"
    """The name under which a longest answer can be asked for."""

    def parameters(self, *, temperature: float | None, longest: int | None) -> dict[str, Any]:
        """The optional parameters of an ask, as far as the endpoint takes them."""
        chosen: dict[str, Any] = {}
        if temperature is not None and self.temperature:
            chosen["temperature"] = temperature
        if longest is not None and self.limit is not None:
            chosen[self.limit] = longest
        if self.stream:
            chosen["stream"] = True
            if self.stream_options:
                chosen["stream_options"] = {"include_usage": True}
        return chosen

    def messages(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        """The messages; without a system role, what the system says opens the first user's message."""
        if not self.system_role:
            messages = _merged(messages)
        return [{"role": message.role, "content": message.content} for message in messages]

    def without(self, refusal: str) -> tuple[Capabilities, str] | None:
        """What remains after a refusal that names its reason, and what was learnt; None: nothing new."""
        if self.tools and _TOOLS.search(refusal):
            return replace(self, tools=False), "takes no functions to call"
        if self.stream and self.stream_options and _STREAM_OPTIONS.search(refusal):
            return replace(self, stream_options=False), "takes no stream_options"
        if self.limit is not None and _MAX.search(refusal):
            if self.limit == "max_tokens":
                learnt = "wants max_completion_tokens in the place of max_tokens"
                return replace(self, limit="max_completion_tokens"), learnt
            return replace(self, limit=None), "takes no limit for the answer's length"
        if self.temperature and _TEMPERATURE.search(refusal):
            return replace(self, temperature=False), "takes no temperature"
        if self.system_role and _SYSTEM.search(refusal):
            return replace(self, system_role=False), "has no system role"
        if self.stream and _STREAM.search(refusal):
            return replace(self, stream=False), "does not stream"
        return None

    def plainest(self) -> tuple[Capabilities, str] | None:
        """For a refusal without a reason: no optional parameters; None if the request already had none."""
        plain = Capabilities(
            system_role=False,
            temperature=False,
            stream=False,
            stream_options=False,
            tools=False,
            limit=None,
        )
        return (plain, "is asked in the plainest form") if self != plain else None


def _merged(messages: Sequence[Message]) -> list[Message]:
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    others = [message for message in messages if message.role != "system"]
    if not system:
        return others
    if others and others[0].role == "user":
        return [Message("user", f"{system}\n\n{others[0].content}"), *others[1:]]
    return [Message("user", system), *others]
