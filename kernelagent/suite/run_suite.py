"""Runs a suite: a run for every problem that has not ended yet, a few of them side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from kernelagent.domain.configuration.budget import Spent
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import ExitStatus, KernelAgentError
from kernelagent.domain.events import Logged, RunFinished, Subscriber
from kernelagent.domain.serialization import from_data, to_data
from kernelagent.loop.queries.exclusive_gpu import Judges
from kernelagent.loop.run import HERE, optimize
from kernelagent.loop.run_setup import default_strategy, versions
from kernelagent.storage.run_log import LOG, RunFolder, read_events
from kernelagent.storage.run_state import fold
from kernelagent.suite.log import (
    ProblemBegun,
    ProblemEnded,
    SuiteFinished,
    SuiteFolder,
    SuiteLog,
    SuiteResumed,
    SuiteStarted,
    TooDear,
    read_suite,
    started,
    total_of,
)
from kernelagent.suite.problems import FoundProblems, SuiteProblem
from kernelagent.suite.shared_budget import SharedBudget, most_for_one


class RunOne(Protocol):
    """Runs one problem, or goes on with its run in `folder`; raises `KernelAgentError`.

    `kernelagent.loop.run.optimize` is one; a recording or another machine may stand in its place.
    """

    def __call__(
        self,
        problem: SuiteProblem,
        config: RunConfig,
        folder: RunFolder | None,
        subscribers: Sequence[Subscriber],
        stop_asked: Callable[[], bool],
    ) -> tuple[int, str]:
        """The run's exit status, and why it ended."""
        ...


class Watcher(Protocol):
    """Whoever shows the suite while it runs; called from several threads."""

    def begun(self, key: str) -> None: ...
    def happened(self, key: str, logged: Logged) -> None: ...
    def ended(self, key: str, exit_status: int, why: str) -> None: ...


def run_here(
    problem: SuiteProblem,
    config: RunConfig,
    folder: RunFolder | None,
    subscribers: Sequence[Subscriber],
    stop_asked: Callable[[], bool],
    judges: Judges = HERE,
) -> tuple[int, str]:
    """The ordinary run, on this machine; only its evaluations may be elsewhere."""
    done = optimize(
        problem.spec,
        config,
        subscribers=subscribers,
        stop_asked=stop_asked,
        folder=folder,
        judges=judges,
    )
    return int(done.exit_status), done.why


@dataclass(frozen=True)
class Ended:
    """How a run ended, as its own log says."""

    exit_status: int
    why: str


def begin(
    suites: Path,
    chosen: FoundProblems,
    config: RunConfig,
    jobs: int,
    total_usd: float | None = None,
) -> SuiteFolder:
    """A new suite's folder, its first record written; `total_usd`: for all problems together.

    Raises `UsageError` as `most_for_one` does.
    """
    if total_usd is not None:
        most_for_one(config.budget, total_usd)
    config = replace(config, strategy=config.strategy or default_strategy(config.model))
    folder = SuiteFolder.create(suites, now=time.time())
    log = SuiteLog(folder)
    log.publish(
        SuiteStarted(
            folder.path.name,
            chosen.problems,
            chosen.left_out,
            to_data(config),
            jobs,
            versions(),
            total_usd,
        )
    )
    log.close()
    return folder


def conduct(
    folder: SuiteFolder,
    watcher: Watcher,
    *,
    jobs: int | None = None,
    total_usd: float | None = None,
    stop_asked: Callable[[], bool] = lambda: False,
    run_one: RunOne = run_here,
    opening: Callable[[SuiteLog], None] = lambda _: None,
) -> bool:
    """Run what has not ended yet; True when every problem has. Nothing that is in a log is redone.

    A run that was killed goes on from its log; one that failed because of the machine or the model
    (exit 3) is tried again; a problem that cannot be read (exit 2) is not. `total_usd`: dollars for
    all problems together, in place of what was said before. `opening` may write into the suite's log
    before the first problem, and keep it for as long as this call lasts.
    """
    first = started(folder)
    records = read_suite(folder)
    resumed = len(records) > 1
    endings = {r.key: r for r in records if isinstance(r, ProblemEnded)}
    cut_short = frozenset(key for key, ending in endings.items() if ending.stopped)
    config = from_data(first.config, RunConfig)
    total = total_of(records) if total_usd is None else total_usd
    shared_budget = None if total is None else _purse(folder, first.problems, config, total)
    began, log = time.monotonic(), SuiteLog(folder)
    if resumed or total_usd is not None:
        log.publish(SuiteResumed(jobs or first.jobs, total_usd))
    opening(log)
    suite = _Suite(folder, config, log, watcher, stop_asked, run_one, cut_short, shared_budget)
    try:
        with ThreadPoolExecutor(jobs or first.jobs, "suite") as pool:
            done = list(pool.map(suite.take, first.problems))
        if suite.refused and not stop_asked():
            log.publish(TooDear(suite.refused[0]))
        log.publish(SuiteFinished(not all(done), time.monotonic() - began))
        return all(done)
    finally:
        log.close()


@dataclass(frozen=True)
class _Suite:
    folder: SuiteFolder
    config: RunConfig
    log: SuiteLog
    watcher: Watcher
    stop_asked: Callable[[], bool]
    run_one: RunOne
    cut_short: frozenset[str]
    """Problems whose run ended because the user stopped an earlier call."""
    shared_budget: SharedBudget | None
    """None: nothing limits what all problems cost together."""
    refused: list[str] = field(default_factory=list)
    """Why a problem was not begun, once for each."""

    def take(self, problem: SuiteProblem) -> bool:
        """One problem to its end; False when the user stopped the suite before."""
        runs = self.folder.runs_of(problem.key)
        before = run_folder(runs)
        ended = None if before is None else end_of(before)
        whole = problem.key not in self.cut_short
        if ended is not None and ended.exit_status != ExitStatus.ENVIRONMENT and whole:
            self.watcher.ended(problem.key, ended.exit_status, ended.why)
            return True
        if self.stop_asked():
            return False
        if self.shared_budget is None:
            return self._take(problem, before)
        already = 0.0 if before is None else spent_in(before).dollars
        refused = self.shared_budget.take(already, self.stop_asked)
        if refused is not None:
            self.refused.append(refused)
            return False
        spent = _Counting()
        try:
            return self._take(problem, before, (spent,))
        finally:
            self.shared_budget.settle(already, spent.total)

    def _take(
        self, problem: SuiteProblem, before: RunFolder | None, also: tuple[Subscriber, ...] = ()
    ) -> bool:
        self.log.publish(ProblemBegun(problem.key))
        self.watcher.begun(problem.key)
        began = time.monotonic()
        status, why = self._run(problem, before, also)
        seconds = time.monotonic() - began
        stopped = self.stop_asked()
        self.log.publish(ProblemEnded(problem.key, status, why, seconds, stopped))
        self.watcher.ended(problem.key, status, why)
        return not stopped

    def _run(
        self, problem: SuiteProblem, before: RunFolder | None, also: tuple[Subscriber, ...]
    ) -> tuple[int, str]:
        config = replace(
            self.config,
            runs=str(self.folder.runs_of(problem.key)),
            out=str(self.folder.module_of(problem.key)),
        )

        def tell(logged: Logged) -> None:
            self.watcher.happened(problem.key, logged)

        try:
            return self.run_one(problem, config, before, (*also, tell), self.stop_asked)
        except KernelAgentError as error:
            return int(error.exit_status), str(error)


@dataclass
class _Counting:
    """A subscriber that adds up what a run spends from here on."""

    total: Spent = field(default_factory=Spent)

    def __call__(self, logged: Logged) -> None:
        self.total = self.total.after(logged.event)


def _purse(
    folder: SuiteFolder, problems: Sequence[SuiteProblem], config: RunConfig, total: float
) -> SharedBudget:
    """The suite's dollars, less what its runs have spent; raises `UsageError` as `most_for_one` does."""
    each = most_for_one(config.budget, total)
    runs = [run_folder(folder.runs_of(problem.key)) for problem in problems]
    return SharedBudget(total, each, sum(spent_in(run).dollars for run in runs if run is not None))


def spent_in(run: RunFolder) -> Spent:
    """What a run has used so far, as its log says."""
    return fold(read_events(run.log)).spent


def run_folder(runs: Path) -> RunFolder | None:
    """The run below `runs` that got as far as a first event; the latest if there are several."""
    logs = sorted(runs.glob(f"*/{LOG}"))
    begun = [log for log in logs if b"\n" in log.read_bytes()]
    return RunFolder(begun[-1].parent) if begun else None


def end_of(run: RunFolder) -> Ended | None:
    """How a run ended; None while it has not, or when the user stopped it in the middle."""
    events = list(read_events(run.log))
    event = events[-1].event if events else None
    if isinstance(event, RunFinished) and event.outcome != "interrupted":
        return Ended(event.exit_status, event.why)
    return None
