"""One run from problem to emitted module: wires judge, models, strategy and log together.

The loop itself is `session`; what the terminal shows is `console`; both know nothing of each other.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import kernelagent
from kernelagent.domain.better import ratio_interval, standing
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.config import RunConfig
from kernelagent.domain.errors import EnvironmentFault, ExitStatus, KernelAgentError, UsageError
from kernelagent.domain.evaluation import Evaluation, Stage
from kernelagent.domain.events import (
    ModuleEmitted,
    ProblemDescribed,
    Remarked,
    RunFinished,
    RunResumed,
    RunStarted,
    Subscriber,
    WinnerMeasured,
    stage_event,
)
from kernelagent.domain.history import History, Turn
from kernelagent.domain.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import to_data
from kernelagent.dropin.emit import Certificate, emit_module, review
from kernelagent.loop.attached_lessons import Attached
from kernelagent.loop.exclusive_gpu import Judge, Judges, OpenedJudge, QuietJudge, Say
from kernelagent.loop.preflight import check_before_start, check_reachable
from kernelagent.loop.run_setup import (
    asked_of,
    default_strategy,
    judge_settings,
    out_path,
    stem_of,
    versions,
)
from kernelagent.loop.session import Session, no_recall
from kernelagent.models import Model, ModelSettings
from kernelagent.models.draining import Pausable
from kernelagent.models.kinds import load_model
from kernelagent.report.files import write_reports
from kernelagent.report.reproduce import recheck_command
from kernelagent.storage.git_history import GitLog
from kernelagent.storage.inbox import Inbox
from kernelagent.storage.output_file import write_atomically
from kernelagent.storage.run_log import EventLog, RunFolder, read_events, resume_with
from kernelagent.storage.run_state import RunState, fold, to_continue
from kernelagent.storage.secrets import Redactor, redactor_for
from kernelagent.strategies import load_strategy
from kernelagent.tools.gpu_lock import Gpu, GpuLock, gpu_of
from kernelagent.tools.judge_client import JudgeProcess

Outcome = Literal["better", "not_faster", "none", "interrupted", "failed"]
_TRIED_WINNERS = 3


def why_not_faster(winner: Evaluation) -> str | None:
    """Why an accepted winner is not written as a better module; None where it is faster."""
    match standing(winner):
        case "faster":
            return None
        case "slower" if winner.timing is None:
            return "by its estimate it is slower than the eager module"
        case "slower":
            return "it is slower than the eager module"
    if winner.timing is not None:
        return "it is not faster than the baseline"
    if winner.estimate is None:
        return "there is no estimate, so nothing says that it is faster"
    ratio = ratio_interval(winner)
    assert ratio is not None
    return (
        f"its estimate cannot be told apart from the eager module's "
        f"({ratio.value:.2f} of its speed, between {ratio.low:.2f} and {ratio.high:.2f})"
    )


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
    """Run to the end; raises what stops a run before it began, returns what it came to otherwise.

    `folder`: an existing run's, to go on where it ended. `ready`: models that are made already, by the
    name under which the configuration has them. `judges`: who evaluates, if not this machine.
    """
    check_before_start(problem, config, ready)
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
    run = _Run(problem, config, folder, log, out, stop_asked, state, ready, redact, judges, memory)
    try:
        run.begin(resumed=resumed)
        if git_log.fault is not None:
            run.warn_once(f"this run keeps no git history: {git_log.fault}")
        return run.go()
    except KernelAgentError as error:
        log.publish(RunFinished("failed", int(error.exit_status), str(error)))
        if error.exit_status is ExitStatus.ENVIRONMENT:
            sys.stderr.write(f"{resume_with(folder.path)}\n")
        raise
    except KeyboardInterrupt:
        sys.stderr.write(f"{resume_with(folder.path)}\n")
        log.publish(RunFinished("interrupted", int(ExitStatus.INTERRUPTED), "stopped by the user"))
        raise
    finally:
        log.close()
        _report(folder)


def _report(folder: RunFolder) -> None:
    """A full disk must not take away a result that is written already."""
    try:
        write_reports(folder)
    except EnvironmentFault as error:
        sys.stderr.write(f"kernelagent: {error}\n")


class _Run:
    def __init__(
        self,
        problem: ProblemSpec,
        config: RunConfig,
        folder: RunFolder,
        log: EventLog,
        out: Path,
        stop_asked: Callable[[], bool],
        state: RunState,
        ready: Mapping[str, Model] = MappingProxyType({}),
        redact: Redactor | None = None,
        judges: Judges = HERE,
        memory: Attached | None = None,
    ) -> None:
        """`state`: what the log held when this part of the run began."""
        self._problem = problem
        self._config = config
        self._folder = folder
        self._log = log
        self._out = out
        self._stop_asked = stop_asked
        self._state = state
        self._ready = ready
        self._redact = redact or Redactor()
        self._judges = judges
        self._memory = memory
        self._stopped = False

    def begin(self, *, resumed: bool) -> None:
        """The first event of this part of the run."""
        if resumed:
            self._log.publish(RunResumed(self._log.torn_bytes))
        else:
            config = to_data(self._config)
            self._log.publish(RunStarted(self._folder.id, self._problem, config, versions()))

    def warn_once(self, message: str) -> None:
        """A warning, unless an earlier part of the run has said it."""
        if message not in self._state.remarks:
            self._log.publish(Remarked("warning", message))

    def go(self) -> RunResult:
        settings = judge_settings(self._problem, self._config)
        with self._judges.open(settings, self._remark) as judge:
            if self._state.facts is None:
                self._log.publish(ProblemDescribed(judge.facts, judge.device, judge.sandbox))
            self._refuse_another_problem(judge)
            times_here = judge.device.kind == "cuda" and self._judges.here
            gpu = gpu_of(self._config.device) if times_here else None
            with ExitStack() as started:
                models = self._models(judge, gpu, started)
                quiet = self._quiet(judge, gpu, models)
                history, why = self._search(judge, quiet, models)
            return self._finish(judge, self._quiet(judge, gpu, ()), history, why)

    def _refuse_another_problem(self, judge: OpenedJudge) -> None:
        known = self._state.facts
        if known is not None and known.sha256 != judge.facts.sha256:
            raise UsageError(
                f"{self._problem.label} has changed since run {self._state.run} began; start a "
                f"new run"
            )

    def _models(self, judge: OpenedJudge, gpu: Gpu | None, started: ExitStack) -> list[Model]:
        """The models in the order given; whichever started is closed, also when a later one cannot."""
        settings = ModelSettings(
            problem=self._problem,
            facts=judge.facts,
            target=judge.device.target,
            device=judge.device.kind,
            api_base=self._config.api_base,
            stop_asked=self._stop_asked,
            redact=self._redact,
            vllm=self._config.vllm,
            gpu=gpu,
            folder=self._folder.path,
            publish=self._log.publish,
        )
        models = []
        for name in self._config.model:
            models.append(self._ready[name] if name in self._ready else load_model(name, settings))
            started.callback(models[-1].close)
        return models

    def _quiet(self, judge: OpenedJudge, gpu: Gpu | None, models: Sequence[Model]) -> Judge:
        """On a GPU the judge has it to itself while it works."""
        if gpu is None:
            return judge
        sharing = [model for model in models if isinstance(model, Pausable)]
        return QuietJudge(judge, GpuLock(gpu.id), sharing, partial(self._remark, "info"))

    def _remark(self, level: Literal["info", "warning"], message: str) -> None:
        self._log.publish(Remarked(level, message))

    def _search(
        self, judge: OpenedJudge, quiet: Judge, models: Sequence[Model]
    ) -> tuple[History, str]:
        history, begun = to_continue(self._state)
        names = [model.name for model in models]
        strategy = self._config.strategy or default_strategy(names)
        session = Session(
            facts=judge.facts,
            device=judge.device,
            strategy=load_strategy(strategy, names, self._config.seed, self._config.set),
            models={model.name: model for model in models},
            evaluator=quiet,
            budget=self._config.budget,
            publish=self._log.publish,
            clock=time.monotonic,
            keep_prompt=self._folder.keep_prompt,
            keep_candidate=self._folder.keep_candidate,
            stop_asked=self._stop_asked,
            recall=no_recall if self._memory is None else self._memory.recall,
            commands=Inbox.of(self._folder),
            steering=self._state.steering.after(RunResumed()),
            weights=self._config.reward,
            prompts=self._config.prompts,
            history=history,
            spent=self._state.spent,
            elapsed_before_s=self._state.elapsed_s,
            begun=begun,
            kept_prompt=self._folder.kept_prompt,
            redact=self._redact,
        )
        why = session.run()
        self._stopped = session.steering.ending == "stop"
        return session.history, why

    def _finish(self, judge: OpenedJudge, quiet: Judge, history: History, why: str) -> RunResult:
        ranked = sorted((t for t in history.turns if t.accepted), key=lambda t: (-t.score, t.index))
        shortfall = "no candidate was accepted"
        kept: tuple[Turn, Evaluation] | None = None
        for turn in ranked[:_TRIED_WINNERS]:
            if turn.candidate is None:
                continue
            winner = self._measured(judge, quiet, turn.index, turn.candidate)
            fault = self._why_not(winner)
            if fault is None:
                return self._emit(judge, turn, winner, why)
            seen = self._config.force or not review(turn.candidate.source)
            if kept is None and winner.accepted and standing(winner) == "not told apart" and seen:
                kept = turn, winner
            shortfall = f"turn {turn.index}, judged again: {fault}"
            self.warn_once(shortfall)
        interrupted = self._stopped or self._stop_asked()
        status = ExitStatus.INTERRUPTED if interrupted else ExitStatus.NOT_FOUND
        outcome: Outcome = "interrupted" if interrupted else "none"
        if kept is not None and not interrupted:
            turn, winner = kept
            text = self._module_text(judge, turn, winner)
            write_atomically(self._folder.path / "module.py", text, force=True)
            outcome = "not_faster"
            shortfall += (
                f"; the verified module is kept in the run's folder, and `kernelagent apply "
                f"--run {self._folder.id}` takes it on request"
            )
        return self._done(outcome, status, f"{why}; {shortfall}", None, None, None)

    def _measured(
        self, judge: OpenedJudge, quiet: Judge, turn: int, candidate: Candidate
    ) -> Evaluation:
        """The second measurement, made once: an earlier part's holds on the same device."""
        known = self._state.measured.get(turn)
        if known is not None and known.device == judge.device:
            return known
        winner = quiet.certify(candidate, partial(self._progress, turn))
        if self._why_not(winner) is None:
            winner = self._widened(judge, candidate, winner)
        self._log.publish(WinnerMeasured(turn, winner))
        return winner

    def _widened(self, judge: OpenedJudge, candidate: Candidate, winner: Evaluation) -> Evaluation:
        if self._config.envelope_seconds <= 0:
            return winner
        try:
            return judge.widen(candidate, winner, self._config.envelope_seconds)
        except EnvironmentFault as error:
            # The verdict on the given inputs stands without it.
            self.warn_once(f"no inputs near yours were tried: {error}")
            return winner

    def _progress(self, turn: int, stage: Stage) -> None:
        self._log.publish(stage_event(turn, stage))

    def _why_not(self, winner: Evaluation) -> str | None:
        if winner.reason is not None:
            return f"{winner.reason.code}: {winner.reason.message}"
        return why_not_faster(winner)

    def _emit(self, judge: OpenedJudge, turn: Turn, winner: Evaluation, why: str) -> RunResult:
        assert turn.candidate is not None
        findings = review(turn.candidate.source)
        for finding in findings:
            self.warn_once(f"line {finding.line}: {finding.what}: {finding.why}")
        if findings and not self._config.force:
            text = "the winner needs your eyes before it is written (see above); use --force"
            return self._done("none", ExitStatus.NOT_FOUND, f"{why}; {text}", None, winner, turn)
        text = self._module_text(judge, turn, winner)
        kept = self._folder.path / "module.py"
        write_atomically(kept, text, force=True, advice="free space there, or change --runs")
        write_atomically(self._out, text, force=self._config.force)
        sha = hashlib.sha256(text.encode()).hexdigest()
        self._log.publish(ModuleEmitted(turn.index, str(self._out), sha))
        return self._done("better", ExitStatus.OK, why, self._out, winner, turn)

    def _module_text(self, judge: OpenedJudge, turn: Turn, winner: Evaluation) -> str:
        """The emitted module with its certificate."""
        assert turn.candidate is not None
        certificate = Certificate(
            run=self._folder.id,
            date=time.strftime("%Y-%m-%d", time.gmtime()),
            policy=winner.policy,
            baseline=winner.baseline,
            reproduce=recheck_command(self._problem, self._config, self._out),
            kernelagent=kernelagent.__version__,
            asked=asked_of(self._problem, self._config),
        )
        return emit_module(turn.candidate, judge.facts, winner, certificate, self._config.runtime)

    def _done(
        self,
        outcome: Outcome,
        status: ExitStatus,
        why: str,
        path: Path | None,
        winner: Evaluation | None,
        turn: Turn | None,
    ) -> RunResult:
        best = turn.index if turn is not None else None
        self._learn()
        self._log.publish(RunFinished(outcome, int(status), why, best))
        state = fold(read_events(self._folder.log))
        return RunResult(self._folder.path, outcome, status, why, winner, path, state)

    def _learn(self) -> None:
        """What the run taught goes into its memory; one that cannot be written spoils no run."""
        try:
            message = None if self._memory is None else self._memory.learn(self._folder.log)
        except KernelAgentError as error:
            self.warn_once(f"the memory learnt nothing from this run: {error}")
        else:
            if message is not None:
                self._remark("info", message)
