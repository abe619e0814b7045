"""What a writer may ask without spending a turn, and what it is answered: calls and their results as data.

Which tools there are, and what each takes, stands in `tool_registry`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernelagent.domain.evaluation import Estimate, KernelFacts, Reason


@dataclass(frozen=True)
class ToolCall:
    """One call as the writer made it; whether it fits the tool is asked of the registry."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    """The endpoint's name for it, where the writer calls functions."""
    unread: str = ""
    """What stood in the place of the arguments, where it could not be read as such."""

    @classmethod
    def of(cls, tool: str, **arguments: Any) -> ToolCall:
        return cls(tool, arguments)

    @property
    def code(self) -> str:
        """The source it is about; empty for tools that take none."""
        code = self.arguments.get("code", "")
        return code if isinstance(code, str) else ""

    def same_as(self, other: ToolCall) -> bool:
        """Whether both ask the same; an endpoint's names for them do not count."""
        ours, theirs = ((c.tool, c.arguments, c.unread) for c in (self, other))
        return ours == theirs


@dataclass(frozen=True)
class Checked:
    """A candidate compiled and counted at the user's sizes; nothing of it has been verified."""

    fault: Reason | None = None
    """Why it does not come so far."""
    kernels: tuple[KernelFacts, ...] = ()
    estimate: Estimate | None = None
    """Of the input set that gains least; None on `cuda`, where times are measured in a turn."""
    torch_operations: tuple[str, ...] = ()
    """What torch still computes beside the kernels."""


@dataclass(frozen=True)
class ToolResult:
    """What came of a call that was made: `unfit`, or the part that belongs to its tool."""

    seconds: float = 0.0
    """How long the device or the judge was at it."""
    unfit: str | None = None
    """Why the call could not be answered: an argument that does not fit, or a device that lacks it."""
    checked: Checked | None = None


@dataclass(frozen=True)
class ToolAnswer:
    """What the writer reads."""

    text: str
    refused: bool = False
    """The call was not made, since the budget of calls is used up."""


@dataclass(frozen=True)
class ToolRound:
    """The calls that a writer made at once, in mid-turn, and what it was answered."""

    said: str
    """All that it wrote, with the calls where they stand in its text."""
    calls: tuple[ToolCall, ...]
    answers: tuple[str, ...] = ()
