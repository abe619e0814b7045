"""A writer's calls beside its turns, answered by the judge that will judge it; nothing here enters a verdict.

Failures of a candidate are in the result. What does not fit the tool is told as `unfit`.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Protocol

from kernelagent.domain.replies.tool_calls import (
    Assembly,
    Benched,
    Checked,
    Probed,
    ToolCall,
    ToolResult,
)
from kernelagent.domain.replies.tool_registry import ASM, BENCH, CHECK, PROBE, REFERENCE, SWEEP
from kernelagent.tools.judge.bounds.quick_check import quick_check
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.source_reading.syntax import syntax_fault
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.limits import Deadline
from kernelagent.tools.judge.workbench.assembly import assembly
from kernelagent.tools.judge.workbench.axes import NoSuchAxis, configurations
from kernelagent.tools.judge.workbench.probing import probe, source_of
from kernelagent.tools.judge.workbench.reference_look import look
from kernelagent.tools.judge.workbench.sweeping import bench, sweep

_ONE_S = 60.0
"""The longest that one process of a candidate may take on `virtual`, on a machine with nothing else to do."""


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
    busy: float = 1.0
    """How much longer one process may take by the clock, because others want the cores (`how_busy`)."""

    def answer(self, call: ToolCall) -> ToolResult:
        """What came of it; raises only what the judge itself cannot do."""
        began = time.monotonic()
        result = self._tools()[call.tool](call)
        return replace(result, seconds=round(time.monotonic() - began, 3))

    def _tools(self) -> dict[str, Callable[[ToolCall], ToolResult]]:
        return {
            CHECK: self._check,
            PROBE: self._probe,
            REFERENCE: self._reference,
            ASM: self._assembly,
            SWEEP: self._sweep,
            BENCH: self._bench,
        }

    def _check(self, call: ToolCall) -> ToolResult:
        wrong = syntax_fault(call.code)
        if wrong is not None:
            return ToolResult(checked=Checked(wrong))
        return ToolResult(checked=quick_check(self.context, self._start(call.code)))

    def _probe(self, call: ToolCall) -> ToolResult:
        source = source_of(self.context, str(call.arguments.get("input_set", "")))
        if source is None:
            return self._no_such_set(call)
        wrong = syntax_fault(call.code)
        if wrong is not None:
            return ToolResult(probed=Probed(source.name, fault=wrong))
        return ToolResult(probed=probe(self.context, self._start(call.code), source.name))

    def _reference(self, call: ToolCall) -> ToolResult:
        source = source_of(self.context, str(call.arguments.get("input_set", "")))
        if source is None:
            return self._no_such_set(call)
        path = str(call.arguments.get("submodule", ""))
        try:
            return ToolResult(reference=look(self.context, source, path))
        except KeyError:
            names = [name for name, _ in self.context.oracle.module.named_modules() if name]
            close = difflib.get_close_matches(path, names, 8, 0.3) or names[:8]
            return ToolResult(
                unfit=f"the module has no submodule {path!r}; there is {', '.join(close) or 'none'}"
            )

    def _assembly(self, call: ToolCall) -> ToolResult:
        form = str(call.arguments.get("form", "sass"))
        if form not in ("sass", "ptx"):
            return ToolResult(unfit=f"form of `asm` must be sass or ptx, not {form!r}")
        if self.context.device.kind != "virtual":
            return ToolResult(
                unfit="on `cuda` the candidate's own process compiles, and its word is not taken for "
                "machine code; `asm` is answered on `virtual` (--device virtual)"
            )
        kernel, line = str(call.arguments.get("kernel", "")), call.arguments.get("line")
        wrong = syntax_fault(call.code)
        if wrong is not None:
            return ToolResult(assembly=Assembly(kernel, form, line, fault=wrong))
        start = self._start(call.code)
        return ToolResult(assembly=assembly(self.context, start, kernel, line, form))

    def _sweep(self, call: ToolCall) -> ToolResult:
        wrong = syntax_fault(call.code)
        if wrong is not None:
            return ToolResult(checked=Checked(wrong))
        try:
            tried = configurations(call.arguments["axes"])
            swept = sweep(self.context, self._start, call.code, tried, self.seconds)
        except NoSuchAxis as error:
            return ToolResult(unfit=str(error))
        return ToolResult(swept=swept)

    def _bench(self, call: ToolCall) -> ToolResult:
        if self.context.device.kind != "cuda":
            return ToolResult(
                unfit="`bench` measures, and there is no GPU here (`virtual` only estimates): ask `check` for "
                "an estimate, or run with --device cuda"
            )
        wrong = syntax_fault(call.code)
        if wrong is not None:
            return ToolResult(benched=Benched(fault=wrong))
        return ToolResult(benched=bench(self.context, self._start(call.code)))

    def _no_such_set(self, call: ToolCall) -> ToolResult:
        names = ", ".join(source.name for source in self.context.sources)
        return ToolResult(
            unfit=f"there is no input set {call.arguments['input_set']!r}; there is {names}"
        )

    def _start(self, source: str, seconds: float = inf) -> Callable[[], CandidateProcess]:
        most = min(seconds, self.seconds, _ONE_S * self.busy)
        deadline = Deadline(most) if self.context.device.kind == "virtual" else None
        return partial(self.starts, source, deadline=deadline)
