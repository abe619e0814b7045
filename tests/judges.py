"""Judges in the test's own process, with a fork server that they share; their verdicts are the real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import Evaluation, Stage
from kernelagent.domain.problem import Mode, ProblemSpec
from kernelagent.domain.replies.tool_calls import ToolCall, ToolResult
from kernelagent.tools.judge.judge import Judge
from kernelagent.tools.judge.problem.bundle import save_bundle
from kernelagent.tools.judge.verify.process.limits import how_busy
from kernelagent.tools.sandbox.spawn import ForkServer


class JudgeHere:
    """As `JudgeProcess` has it, without the process."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.facts, self.device, self.sandbox = judge.facts, judge.device, judge.sandbox

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        return self._judge.evaluate(candidate.source, "turn", on_stage)

    def evaluate_final(
        self, candidate: Candidate, on_stage: Callable[[Stage], None], seconds: float | None = None
    ) -> Evaluation:
        return self._judge.evaluate(candidate.source, "certificate", on_stage, seconds)

    def call_tool(self, call: ToolCall, seconds: float) -> ToolResult:
        return self._judge.call_tool(call, seconds)

    def widen(self, candidate: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        return self._judge.widen(candidate.source, evaluation, seconds)

    def try_emitted(self, file: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        return self._judge.try_emitted(file.source, evaluation, seconds)


@contextmanager
def open_judge(
    settings: JudgeSettings, fork_server: ForkServer, busy: Callable[[], float] = how_busy
) -> Iterator[Judge]:
    """A judge that is closed when the test is done with it; `busy` as `Judge` has it."""
    judge = Judge(settings, fork_server, busy)
    try:
        yield judge
    finally:
        judge.close()


class JudgesHere:
    """For `optimize(..., judges=...)`: a run starts neither a judge's process nor a fork server."""

    here = True

    def __init__(self, fork_server: ForkServer) -> None:
        self._fork_server = fork_server

    @contextmanager
    def open(self, settings: JudgeSettings, say: Callable[[str, str], None]) -> Iterator[JudgeHere]:
        with open_judge(settings, self._fork_server) as judge:
            yield JudgeHere(judge)


def verdict_on(
    source: str,
    module: torch.nn.Module,
    args: Sequence[Any],
    bundle: Path,
    fork_server: ForkServer,
    mode: Mode = "eval",
) -> Evaluation:
    """What the judge says on `virtual` of a candidate for a live module; `bundle`: the folder that it is saved in."""
    save_bundle(bundle, module, args)
    settings = JudgeSettings(ProblemSpec(bundle=str(bundle)), device="virtual", mode=mode)
    with open_judge(settings, fork_server) as judge:
        return judge.evaluate(source, "verdict", lambda _: None)
