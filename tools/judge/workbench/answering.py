"""A writer's calls beside its turns, answered by the judge that will judge it; nothing here enters a verdict.

Failures of a candidate are in the result. What does not fit the tool is told as `unfit`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from kernelagent.domain.tool_calls import Checked, ToolCall, ToolResult
from kernelagent.domain.tool_registry import CHECK
from kernelagent.tools.judge.bounds.quick_check import quick_check
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.source_reading.syntax import syntax_fault
from kernelagent.tools.judge.verify.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.limits import Deadline


class Starts(Protocol):
    """A process of a candidate of that source, nothing loaded."""

    def __call__(self, source: str, *, deadline: Deadline | None) -> CandidateProcess: ...


@dataclass(frozen=True)
class Workbench:
    """The judge's tools, for one call."""

    context: JudgeContext
    starts: Starts
    seconds: float
    """How long the call may take at most on `virtual`."""

    def answer(self, call: ToolCall) -> ToolResult:
        """What came of it; raises only what the judge itself cannot do."""
        began = time.monotonic()
        result = self._tools()[call.tool](call)
        return replace(result, seconds=round(time.monotonic() - began, 3))

    def _tools(self) -> dict[str, Callable[[ToolCall], ToolResult]]:
        return {CHECK: self._check}

    def _check(self, call: ToolCall) -> ToolResult:
        wrong = syntax_fault(call.code)
        if wrong is not None:
            return ToolResult(checked=Checked(wrong))
        return ToolResult(checked=quick_check(self.context, self._start(call.code)))

    def _start(self, source: str) -> Callable[[], CandidateProcess]:
        deadline = Deadline(self.seconds) if self.context.device.kind == "virtual" else None
        return partial(self.starts, source, deadline=deadline)
