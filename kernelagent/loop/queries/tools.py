"""A writer's tools beside its turns: each call is an event and counts towards a budget of its own.

What each tool is stands in `domain/replies/tool_registry`; the judge answers (`tools/judge/workbench`), but
for the library of kernels (`models/patterns`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.events import Event, ToolCalled
from kernelagent.domain.replies.tool_calls import Library, ToolAnswer, ToolCall, ToolResult
from kernelagent.domain.replies.tool_registry import PATTERNS, Tool, offered_on, unfit
from kernelagent.models.patterns import PATTERNS as LISTED
from kernelagent.models.patterns import pattern
from kernelagent.prompts.tools.tool_answers import answer_text


class ToolHost(Protocol):
    """Answers calls without judging anything; a failed candidate is a value, a failed judge raises."""

    def call_tool(self, call: ToolCall, seconds: float) -> ToolResult: ...


@dataclass(frozen=True)
class ToolBudget:
    """Of the calls before one turn."""

    calls: int
    seconds: float


@dataclass
class _Turn:
    """What one turn's calls have come to."""

    logged: list[ToolCalled]
    """Calls in the log of an interrupted run, with answers: each is given once more if the same call is made again."""
    calls: int = 0
    seconds: float = 0.0


@dataclass
class Tools:
    """What the writers of one run may call while a turn waits for its candidate."""

    host: ToolHost
    device: DeviceFacts
    publish: Callable[[Event], None]
    budget: ToolBudget
    earlier: Mapping[int, Sequence[ToolCalled]] = field(default_factory=dict)
    """By turn: the calls that the log of an interrupted part has."""
    _turns: dict[int, _Turn] = field(default_factory=dict)
    _one_at_a_time: Lock = field(default_factory=Lock)

    def of(self, turn: int) -> ToolsOfTurn:
        return ToolsOfTurn(self, turn)

    @property
    def offered(self) -> tuple[Tool, ...]:
        return offered_on(self.device.kind)

    def used_up(self, turn: int) -> bool:
        """Whether every further call before that turn is refused."""
        used = self._turn(turn)
        return not used.logged and self._refusal(turn, used) is not None

    def call(self, turn: int, call: ToolCall, text: str) -> ToolAnswer:
        """The answer in words; a call beyond the budget is refused in words, too."""
        with self._one_at_a_time:
            used = self._turn(turn)
            again = next((c for c in used.logged if c.call.same_as(call)), None)
            if again is not None:
                used.logged.remove(again)
                return ToolAnswer(again.answer, again.result is None)
            used.calls += 1
            refusal = self._refusal(turn, used, making=True)
            if refusal is not None:
                self.publish(ToolCalled(turn, used.calls, call, refusal, None, text))
                return ToolAnswer(refusal, refused=True)
            result = self._answered(call, self.budget.seconds - used.seconds)
            used.seconds += result.seconds
            answer = f"{answer_text(result, self.device)}\n{self._left(turn, used)}"
            self.publish(ToolCalled(turn, used.calls, call, answer, result, text))
            return ToolAnswer(answer)

    def _answered(self, call: ToolCall, seconds: float) -> ToolResult:
        why = unfit(call)
        if why is not None:
            return ToolResult(unfit=why)
        return (
            _of_the_library(call) if call.tool == PATTERNS else self.host.call_tool(call, seconds)
        )

    def _turn(self, turn: int) -> _Turn:
        if turn not in self._turns:
            logged = list(self.earlier.get(turn, ()))
            spent = sum(c.result.seconds for c in logged if c.result is not None)
            self._turns[turn] = _Turn(logged, len(logged), spent)
        return self._turns[turn]

    def _refusal(self, turn: int, used: _Turn, *, making: bool = False) -> str | None:
        """`making`: the call in question is counted already."""
        if used.calls - making >= self.budget.calls:
            what = f"all {self.budget.calls} calls"
        elif used.seconds >= self.budget.seconds:
            what = f"the {self.budget.seconds:g} seconds of calls"
        else:
            return None
        return f"{what} of tools before turn {turn} are used; hand in a candidate"

    def _left(self, turn: int, used: _Turn) -> str:
        calls = self.budget.calls - used.calls
        seconds = max(0.0, self.budget.seconds - used.seconds)
        return (
            f"No turn was spent; {calls} of {self.budget.calls} calls and {seconds:.0f} s of "
            f"{self.budget.seconds:g} s are left before turn {turn}."
        )


def _of_the_library(call: ToolCall) -> ToolResult:
    """The list of kernels, or the one that is named."""
    name = call.arguments.get("name", "")
    if not name:
        return ToolResult(library=Library(listed=dict(LISTED)))
    if name not in LISTED:
        return ToolResult(unfit=f"there is no pattern {name!r}; there is {', '.join(LISTED)}")
    return ToolResult(library=Library(name=name, source=pattern(name)))


@dataclass(frozen=True)
class ToolsOfTurn:
    """`Tools` for the writer of one turn; `ModelQuery.tools` is one."""

    tools: Tools
    turn: int

    @property
    def offered(self) -> tuple[Tool, ...]:
        return self.tools.offered

    @property
    def used_up(self) -> bool:
        return self.tools.used_up(self.turn)

    def call(self, call: ToolCall, text: str = "") -> ToolAnswer:
        return self.tools.call(self.turn, call, text)
