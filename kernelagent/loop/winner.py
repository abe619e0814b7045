"""The end of a run: the best candidates are judged again with fresh inputs, and one is written out."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import kernelagent
from kernelagent.domain.better import ratio_interval, standing
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.judge_settings import LAST_JUDGING
from kernelagent.domain.errors import EnvironmentFault, ExitStatus
from kernelagent.domain.evaluation import NO_TIME_TO_ESTIMATE, Disclosure, Evaluation, Stage
from kernelagent.domain.events import ModuleEmitted, WinnerMeasured, stage_event
from kernelagent.domain.history import History, Turn
from kernelagent.domain.problem import ProblemSpec
from kernelagent.dropin.emit import Certificate, emit_module, review
from kernelagent.dropin.runtime_package import Runtime
from kernelagent.loop.queries.exclusive_gpu import Judge, OpenedJudge
from kernelagent.loop.run_setup import asked_of
from kernelagent.report.reproduce import recheck_command
from kernelagent.storage.output_file import write_atomically
from kernelagent.storage.run_log import EventLog, RunFolder
from kernelagent.storage.run_state import RunState

Outcome = Literal["better", "not_faster", "none", "interrupted", "failed"]
_TRIED_WINNERS = 3


@dataclass(frozen=True)
class Ending:
    """What the second measurement came to."""

    outcome: Outcome
    status: ExitStatus
    why: str
    path: Path | None = None
    """The emitted module, when one was written."""
    winner: Evaluation | None = None
    """Its second evaluation."""
    turn: Turn | None = None


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
    rather = ", which is rather slower" if ratio.value < 1 else ""
    return (
        f"its estimate cannot be told apart from the eager module's "
        f"({ratio.value:.2f} of its speed{rather}, between {ratio.low:.2f} and {ratio.high:.2f})"
    )


@dataclass(frozen=True)
class FinalStage:
    """Judges a run's best accepted turns again, chooses one and writes the module.

    `judge` knows the problem, `exclusive_judge` is the same judge with the GPU to itself.
    """

    problem: ProblemSpec
    config: RunConfig
    folder: RunFolder
    log: EventLog
    out: Path
    state: RunState
    """What the log held when this part of the run began."""
    judge: OpenedJudge
    exclusive_judge: Judge
    warn_once: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic

    def emit_best(self, history: History, why: str, *, interrupted: bool) -> Ending:
        """Writes the best turn that is still faster when it is judged again; else says why there is none.

        Judging again has one time limit for all: the first may use all of it, and the next is begun only if at
        least half is left.
        """
        ranked = sorted((t for t in history.turns if t.accepted), key=lambda t: (-t.score, t.index))
        shortfall = none_accepted = _none_accepted(history)
        kept: tuple[Turn, Evaluation] | None = None
        seconds = LAST_JUDGING * self.config.judging_seconds
        ends = self.clock() + seconds
        for turn in ranked[:_TRIED_WINNERS]:
            if turn.candidate is None or turn.evaluation is None:
                continue
            if standing(turn.evaluation) == "slower":
                # Judged again it is the same candidate: nothing would come of it.
                if shortfall == none_accepted:
                    shortfall = f"turn {turn.index}: {why_not_faster(turn.evaluation)}"
                continue
            left = ends - self.clock()
            if left < seconds / 2:
                shortfall += "; judging the next one again would take too long"
                break
            final = self._measured(turn, turn.candidate, left)
            fault = _why_not(final)
            if fault is None:
                return self._emit(turn, final, why)
            seen = self.config.force or not review(turn.candidate.source)
            level = final.accepted and standing(final) == "not told apart"
            if kept is None and level and seen:
                kept = turn, final
            shortfall = f"turn {turn.index}, judged again: {fault}"
            self.warn_once(shortfall)
            if level and final.estimate is not None:
                # The others rank below it by the same estimate.
                break
        status = ExitStatus.INTERRUPTED if interrupted else ExitStatus.NOT_FOUND
        outcome: Outcome = "interrupted" if interrupted else "none"
        if kept is not None and not interrupted:
            turn, final = kept
            text = self._module_text(turn, final)
            write_atomically(self.folder.path / "module.py", text, force=True)
            outcome = "not_faster"
            shortfall += (
                f"; the verified module is kept in the run's folder, and `kernelagent apply "
                f"--run {self.folder.id}` takes it on request"
            )
        return Ending(outcome, status, f"{why}; {shortfall}")

    def _measured(self, turn: Turn, candidate: Candidate, seconds: float) -> Evaluation:
        """Judge the candidate once more; a resumed run takes the result from its log, if the device is the same."""
        known = self.state.measured.get(turn.index)
        if known is not None and known.device == self.judge.device:
            return known
        winner = self.exclusive_judge.evaluate_final(
            candidate, partial(self._progress, turn.index), seconds
        )
        if turn.evaluation is not None:
            winner = _with_its_estimate(winner, turn.index, turn.evaluation)
        if _why_not(winner) is None:
            winner = self._widened(turn, candidate, winner)
        if winner.accepted and standing(winner) != "slower":
            winner = self._as_emitted(turn, candidate, winner)
        self.log.publish(WinnerMeasured(turn.index, winner))
        return winner

    def _widened(self, turn: Turn, candidate: Candidate, winner: Evaluation) -> Evaluation:
        if self.config.envelope_seconds <= 0:
            return winner
        began = self.clock()
        try:
            widened = self.judge.widen(candidate, winner, self.config.envelope_seconds)
        except EnvironmentFault as error:
            # The verdict on the given inputs stands without it.
            self.warn_once(f"no inputs near yours were tried: {error}")
            return winner
        self._progress(turn.index, Stage("neighbours", "passed", self.clock() - began))
        return widened

    def _as_emitted(self, turn: Turn, candidate: Candidate, winner: Evaluation) -> Evaluation:
        """The verdict with what running the very file has shown: it is another thing than the candidate alone."""
        if review(candidate.source) and not self.config.force:
            return winner  # No file is written of it, and perhaps none can be.
        # With the drop-in's text in it, as the package that may hold it need not be installed here.
        file, began = Candidate(self._module_text(turn, winner, "inline")), self.clock()
        try:
            tried = self.judge.try_emitted(file, winner, self.config.judging_seconds)
        except EnvironmentFault as error:
            self.warn_once(f"the emitted file was not tried: {error}")
            return winner
        status: Literal["passed", "failed"] = "passed" if tried.accepted else "failed"
        self._progress(turn.index, Stage("emitted", status, self.clock() - began))
        return tried

    def _progress(self, turn: int, stage: Stage) -> None:
        self.log.publish(stage_event(turn, stage))

    def _emit(self, turn: Turn, winner: Evaluation, why: str) -> Ending:
        assert turn.candidate is not None
        findings = review(turn.candidate.source)
        for finding in findings:
            self.warn_once(f"line {finding.line}: {finding.what}: {finding.why}")
        if findings and not self.config.force:
            text = "the winner needs your eyes before it is written (see above); use --force"
            return Ending("none", ExitStatus.NOT_FOUND, f"{why}; {text}", None, winner, turn)
        text = self._module_text(turn, winner)
        kept = self.folder.path / "module.py"
        write_atomically(kept, text, force=True, advice="free space there, or change --runs")
        write_atomically(self.out, text, force=self.config.force)
        sha = hashlib.sha256(text.encode()).hexdigest()
        of_a_part = self.problem.whole is not None
        self.log.publish(ModuleEmitted(turn.index, str(self.out), sha, of_a_part))
        return Ending("better", ExitStatus.OK, why, self.out, winner, turn)

    def _module_text(self, turn: Turn, winner: Evaluation, runtime: Runtime | None = None) -> str:
        """The emitted module with its certificate."""
        assert turn.candidate is not None
        certificate = Certificate(
            run=self.folder.id,
            date=time.strftime("%Y-%m-%d", time.gmtime()),
            policy=winner.policy,
            baseline=winner.baseline,
            reproduce=recheck_command(self.problem, self.config, self.out),
            kernelagent=kernelagent.__version__,
            asked=asked_of(self.problem, self.config),
        )
        return emit_module(
            turn.candidate, self.judge.facts, winner, certificate, runtime or self.config.runtime
        )


def _with_its_estimate(final: Evaluation, turn: int, first: Evaluation) -> Evaluation:
    """A candidate whose work the machine had no time to count again keeps the estimate of its turn.

    That is of the same source on the same device. An estimate that was refused for what the candidate does stays away.
    """
    late = next((d for d in final.disclosures if d.code == NO_TIME_TO_ESTIMATE), None)
    if not final.accepted or late is None or first.estimate is None:
        return final
    others = tuple(d for d in final.disclosures if d is not late)
    why = late.message.removeprefix("no estimate: ")
    message = (
        f"the estimate is that of turn {turn}: when it was judged again there was none ({why})"
    )
    return replace(
        final,
        estimate=first.estimate,
        headroom=first.headroom,
        kernels=first.kernels,
        disclosures=(*others, Disclosure("estimated_before", message)),
    )


def _none_accepted(history: History) -> str:
    """Where the last candidate could not be judged, why: that says nothing against it."""
    judged = [t.evaluation for t in history.turns if t.evaluation is not None]
    if not judged or judged[-1].verdict != "error" or judged[-1].reason is None:
        return "no candidate was accepted"
    return (
        f"no candidate was accepted, and the last could not be judged: {judged[-1].reason.message}"
    )


def _why_not(winner: Evaluation) -> str | None:
    if winner.reason is not None:
        return f"{winner.reason.code}: {winner.reason.message}"
    return why_not_faster(winner)
