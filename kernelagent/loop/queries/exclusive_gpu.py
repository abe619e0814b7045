"""Exclusive use of a GPU that local models generate on and candidates are timed on.

Before an evaluation on `cuda`: no model request starts, running ones finish, models free their memory,
and the GPU's lock is held alone. On `virtual` nothing is shared, and none of this happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import DeviceFacts, Evaluation, Stage
from kernelagent.domain.problem import ProblemFacts
from kernelagent.domain.replies.tool_calls import ToolCall, ToolResult
from kernelagent.models.draining import Pausable
from kernelagent.tools.gpu_lock import GpuLock, gpu_of

Say = Callable[[Literal["info", "warning"], str], None]
"""Writes a message into the run's log that is not an event of a step."""


class Judge(Protocol):
    """Evaluates candidates during the turns and the winner at the end."""

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation: ...

    def evaluate_final(
        self, candidate: Candidate, on_stage: Callable[[Stage], None], seconds: float | None = None
    ) -> Evaluation:
        """`seconds`: how long it may take at most on `virtual`; None: twice as long as a turn's judging."""
        ...

    def call_tool(self, call: ToolCall, seconds: float) -> ToolResult: ...


class OpenedJudge(Judge, Protocol):
    """A judge that has read its problem; `JudgeProcess` is one."""

    facts: ProblemFacts
    device: DeviceFacts
    sandbox: str

    def widen(self, candidate: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation: ...

    def try_emitted(
        self, file: Candidate, evaluation: Evaluation, seconds: float
    ) -> Evaluation: ...


class Judges(Protocol):
    """Where the judge of a run comes from."""

    here: bool
    """Whether it times on this machine's GPU, which models may be using."""

    def open(self, settings: JudgeSettings, say: Say) -> AbstractContextManager[OpenedJudge]:
        """Reads the problem; raises `ProblemError`, `EnvironmentFault`."""
        ...


@contextmanager
def alone_on(
    measured: DeviceFacts, device: str, say: Callable[[str], None] = lambda _: None
) -> Iterator[None]:
    """Hold the lock of the GPU that `device` names; does nothing on `virtual`."""
    if measured.kind != "cuda":
        yield
        return
    with GpuLock(gpu_of(device).id).alone(say):
        yield


@dataclass(frozen=True)
class ExclusiveGpuJudge:
    """A judge that has the GPU to itself while it works."""

    judge: Judge
    lock: GpuLock
    models: Sequence[Pausable]
    say: Callable[[str], None]

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        with self.quiet():
            return self.judge.evaluate(candidate, on_stage)

    def evaluate_final(
        self, candidate: Candidate, on_stage: Callable[[Stage], None], seconds: float | None = None
    ) -> Evaluation:
        with self.quiet():
            return self.judge.evaluate_final(candidate, on_stage, seconds)

    def call_tool(self, call: ToolCall, seconds: float) -> ToolResult:
        with self.quiet():
            return self.judge.call_tool(call, seconds)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Pause the models, then take the lock exclusively: generating models hold it as a shared lock."""
        with ExitStack() as after:
            for model in self.models:
                after.callback(model.resume)
                model.pause()
            after.enter_context(self.lock.alone(self.say))
            yield
