"""One run from problem to emitted module: wires judge, models, strategy and log together.

The loop itself is `session`; `cli/terminal/console` prints its events; neither imports the other.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import (
    BeyondThePolicy,
    EnvironmentFault,
    ExitStatus,
    KernelAgentError,
    UsageError,
)
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.events import (
    ProblemDescribed,
    Remarked,
    RunFinished,
    RunResumed,
    RunStarted,
    Subscriber,
)
from kernelagent.domain.history import History
from kernelagent.domain.problem import NamesInFile, ProblemSpec
from kernelagent.domain.serialization import to_data
from kernelagent.loop.attached_lessons import Attached
from kernelagent.loop.loop_state import Earlier
from kernelagent.loop.preflight import check_before_start, check_reachable
from kernelagent.loop.queries.exclusive_gpu import (
    ExclusiveGpuJudge,
    Judge,
    Judges,
    OpenedJudge,
    Say,
)
from kernelagent.loop.run_setup import (
    default_strategy,
    judge_settings,
    out_path,
    stem_of,
    versions,
)
from kernelagent.loop.session import Session, no_recall
from kernelagent.loop.winner import FinalStage, Outcome
from kernelagent.models import Begun, Model, ModelSettings
from kernelagent.models.draining import Pausable
from kernelagent.models.kinds import begin, load_model
from kernelagent.report.files import write_reports
from kernelagent.storage.git_history import GitLog
from kernelagent.storage.inbox import Inbox
from kernelagent.storage.run_log import EventLog, RunFolder, read_events, resume_with
from kernelagent.storage.run_state import RunState, fold
from kernelagent.storage.secrets import Redactor, redactor_for
from kernelagent.strategies import load_strategy
from kernelagent.tools.gpu_lock import Gpu, GpuLock, gpu_of
from kernelagent.tools.judge_client import JudgeProcess


class _JudgesHere:
    """A process on this machine."""

    here = True

    def open(self, settings: JudgeSettings, say: Say) -> JudgeProcess:
        return JudgeProcess(settings)


HERE = _JudgesHere()


@dataclass(frozen=True)
class RunResult:
    """Outcome of a run."""

    run: Path
    outcome: Outcome
    exit_status: ExitStatus
    why: str
    winner: Evaluation | None
    """The re-measured evaluation of the emitted candidate."""
    path: Path | None
    """The emitted module, when one was written."""
    state: RunState


def optimize(
    problem: ProblemSpec,
    config: RunConfig,
    *,
    subscribers: Sequence[Subscriber] = (),
    stop_asked: Callable[[], bool] = lambda: False,
    folder: RunFolder | None = None,
    ready: Mapping[str, Model] = MappingProxyType({}),
    judges: Judges = HERE,
) -> RunResult:
    """Run to the end and return the outcome; raises if the run cannot start.

    `folder`: an existing run's, to go on where it ended. `ready`: models that are made already, by the
    name under which the configuration has them. `judges`: who evaluates, if not this machine.
    """
    names = check_before_start(problem, config, ready)
    check_reachable(config, ready)
    config = replace(config, strategy=config.strategy or default_strategy(config.model))
    out = out_path(problem, config)
    memory = None if config.memory is None else Attached.to(config.memory, learns=config.learn)
    resumed = folder is not None
    folder = folder or RunFolder.create(Path(config.runs), stem_of(problem), now=time.time())
    redact = redactor_for(os.environ, config.api_base)
    log = EventLog(folder, redact=redact)
    state = fold(read_events(folder.log))
    git_log = GitLog(folder)
    log.subscribe(git_log)
    for subscriber in subscribers:
        log.subscribe(subscriber)
    run = Run(problem, config, folder, log, out, stop_asked, state, ready, redact, judges, memory)
    try:
        run.begin(names, resumed=resumed)
        if git_log.fault is not None:
            run.warn_once(f"this run keeps no git history: {git_log.fault}")
        return run.go()
    except KernelAgentError as error:
        log.publish(RunFinished("failed", int(error.exit_status), str(error)))
        if error.exit_status is ExitStatus.ENVIRONMENT and not isinstance(error, BeyondThePolicy):
            sys.stderr.write(f"{resume_with(folder.path)}\n")
        raise
    except KeyboardInterrupt:
        sys.stderr.write(f"{resume_with(folder.path)}\n")
        log.publish(RunFinished("interrupted", int(ExitStatus.INTERRUPTED), "stopped by the user"))
        # The last line of a traceback, where this is called as a library.
        raise KeyboardInterrupt(resume_with(folder.path)) from None
    finally:
        log.close()
        _report(folder)


def _report(folder: RunFolder) -> None:
    """A full disk must not take away a result that is written already."""
    try:
        write_reports(folder)
    except EnvironmentFault as error:
        sys.stderr.write(f"kernelagent: {error}\n")


@dataclass
class Run:
    """One part of a run: from its first event to its last."""

    problem: ProblemSpec
    config: RunConfig
    folder: RunFolder
    log: EventLog
    out: Path
    stop_asked: Callable[[], bool]
    state: RunState
    """What the log held when this part of the run began."""
    ready: Mapping[str, Model] = field(default_factory=dict)
    redact: Redactor = field(default_factory=Redactor)
    judges: Judges = HERE
    memory: Attached | None = None

    def __post_init__(self) -> None:
        self._stopped = False

    def begin(self, names: NamesInFile | None, *, resumed: bool) -> None:
        """The first event of this part of the run: the judge has not been started yet."""
        if resumed:
            self.log.publish(RunResumed(self.log.torn_bytes))
        else:
            config = to_data(self.config)
            self.log.publish(RunStarted(self.folder.id, self.problem, config, versions(), names))

    def warn_once(self, message: str) -> None:
        """A warning, unless an earlier part of the run has said it."""
        if message not in self.state.remarks:
            self.log.publish(Remarked("warning", message))

    def go(self) -> RunResult:
        settings = judge_settings(self.problem, self.config)
        with ExitStack() as outer:
            begun = self._begin(settings, outer)
            judge = outer.enter_context(self.judges.open(settings, self._remark))
            if self.state.facts is None:
                self.log.publish(ProblemDescribed(judge.facts, judge.device, judge.sandbox))
            self._refuse_another_problem(judge)
            times_here = judge.device.kind == "cuda" and self.judges.here
            gpu = gpu_of(self.config.device) if times_here else None
            with ExitStack() as started:
                models = self._models(judge, gpu, begun, started)
                exclusive_judge = self._exclusive_judge(judge, gpu, models)
                history, why = self.search(judge, exclusive_judge, models)
            return self.finish(judge, self._exclusive_judge(judge, gpu, ()), history, why)

    def _refuse_another_problem(self, judge: OpenedJudge) -> None:
        known = self.state.facts
        if known is not None and known.sha256 != judge.facts.sha256:
            raise UsageError(
                f"{self.problem.label} has changed since run {self.state.run} began; start a "
                f"new run"
            )

    def _begin(self, settings: JudgeSettings, started: ExitStack) -> dict[str, Begun]:
        """What models need and takes seconds to start, side by side with the judge."""
        if settings.mode == "train":
            return {}
        begun = begin([name for name in self.config.model if name not in self.ready])
        for item in begun.values():
            started.callback(item.close)
        return begun

    def _models(
        self, judge: OpenedJudge, gpu: Gpu | None, begun: Mapping[str, Begun], started: ExitStack
    ) -> list[Model]:
        """The models in the order given; started ones are closed even if a later one fails to start."""
        settings = ModelSettings(
            problem=self.problem,
            facts=judge.facts,
            target=judge.device.target,
            device=judge.device.kind,
            api_base=self.config.api_base,
            stop_asked=self.stop_asked,
            redact=self.redact,
            vllm=self.config.vllm,
            gpu=gpu,
            folder=self.folder.path,
            publish=self.log.publish,
            begun=begun,
            memory_limit=self.config.memory_limit,
        )
        models = []
        for name in self.config.model:
            models.append(self.ready[name] if name in self.ready else load_model(name, settings))
            started.callback(models[-1].close)
        return models

    def _exclusive_judge(
        self, judge: OpenedJudge, gpu: Gpu | None, models: Sequence[Model]
    ) -> Judge:
        """The judge, which on a GPU has it to itself while it works."""
        if gpu is None:
            return judge
        sharing = [model for model in models if isinstance(model, Pausable)]
        return ExclusiveGpuJudge(judge, GpuLock(gpu.id), sharing, partial(self._remark, "info"))

    def _remark(self, level: Literal["info", "warning"], message: str) -> None:
        self.log.publish(Remarked(level, message))

    def search(
        self, judge: OpenedJudge, exclusive_judge: Judge, models: Sequence[Model]
    ) -> tuple[History, str]:
        """The loop; all turns of the run, and a sentence saying why it ended."""
        names = [model.name for model in models]
        strategy = self.config.strategy or default_strategy(names)
        session = Session(
            facts=judge.facts,
            device=judge.device,
            strategy=load_strategy(strategy, names, self.config.seed, self.config.set),
            models={model.name: model for model in models},
            evaluator=exclusive_judge,
            budget=self.config.budget,
            publish=self.log.publish,
            clock=time.monotonic,
            keep_prompt=self.folder.keep_prompt,
            keep_candidate=self.folder.keep_candidate,
            stop_asked=self.stop_asked,
            recall=no_recall if self.memory is None else self.memory.recall,
            commands=Inbox.of(self.folder),
            config=self.config,
            redact=self.redact,
            earlier=Earlier.of(self.state, self.folder.kept_prompt),
            tool_host=exclusive_judge,
        )
        why = session.run()
        self._stopped = session.state.steering.ending == "stop"
        return session.history, why

    def finish(
        self, judge: OpenedJudge, exclusive_judge: Judge, history: History, why: str
    ) -> RunResult:
        """Judge the best again, write it, and close the log's account of the run."""
        final_stage = FinalStage(
            self.problem,
            self.config,
            self.folder,
            self.log,
            self.out,
            self.state,
            judge,
            exclusive_judge,
            self.warn_once,
        )
        interrupted = self._stopped or self.stop_asked()
        end = final_stage.emit_best(history, why, interrupted=interrupted)
        best = end.turn.index if end.turn is not None else None
        self._learn()
        self.log.publish(RunFinished(end.outcome, int(end.status), end.why, best))
        state = fold(read_events(self.folder.log))
        return RunResult(
            self.folder.path, end.outcome, end.status, end.why, end.winner, end.path, state
        )

    def _learn(self) -> None:
        """Add the run's lessons to its memory; a failure to write them is only a warning."""
        try:
            message = None if self.memory is None else self.memory.learn(self.folder.log)
        except KernelAgentError as error:
            self.warn_once(f"the memory learnt nothing from this run: {error}")
        else:
            if message is not None:
                self._remark("info", message)
