"""What each problem of a suite came to: a fold over its run's log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from kernelagent.domain.evaluation import DeviceFacts, Evaluation
from kernelagent.domain.events import Evaluated, Logged, RunFinished, WinnerMeasured
from kernelagent.domain.history import Turn
from kernelagent.report.record import reproduce_command
from kernelagent.report.terminal.browse import LogContents, contents_of
from kernelagent.storage.run_state import RunState
from kernelagent.suite.log import ProblemEnded, SuiteFolder, read_suite, started
from kernelagent.suite.problems import SuiteProblem
from kernelagent.suite.run_suite import run_folder

Status = Literal["ended", "unfinished", "failed"]
DEGENERATE = "degenerate"
"""The code of admission's disclosure: a constant is accepted as this problem's answer."""


@dataclass(frozen=True)
class Score:
    """One candidate's numbers; a ratio is None where nothing was measured."""

    turn: int | None
    """None: the problem has no such turn."""
    correct: bool
    eager: float | None = None
    """Measured, eager time over the candidate's."""
    compiled: float | None = None
    """Measured, the best torch.compile mode's time over the candidate's."""
    estimate: float | None = None
    """On `virtual`: an estimated ratio to eager, never a speedup."""
    certified: bool = False
    """Judged again with fresh inputs after it was chosen."""
    code: str | None = None
    """Why it is not correct."""


@dataclass(frozen=True)
class ProblemResult:
    """One problem's row."""

    key: str
    label: str
    split: str | None
    status: Status
    exit_status: int | None
    why: str
    run: str | None
    """The run's folder, below the suite's."""
    degenerate: bool
    turns: int
    last: Score
    """The last turn that was evaluated or void: what a user without a history would have got."""
    best: Score
    """The best of all turns, as it was judged the second time."""
    tokens: int
    dollars: float
    unpriced_tokens: int
    wall_s: float
    """All the time that its run was being worked on, over all resumptions."""
    device_s: float
    """Seconds of evaluation, the second judging of the winner included."""
    by_turn: tuple[Score, ...] = ()
    """Each finished turn, as it was judged then."""
    reproduce: str | None = None
    """The command that judges the problem's module again; None where none was written."""


def results_of(folder: SuiteFolder) -> tuple[ProblemResult, ...]:
    """A row for every problem, in the suite's order; raises `UsageError` on a log that is none."""
    endings = [r for r in read_suite(folder) if isinstance(r, ProblemEnded)]
    return tuple(
        _result(folder, problem, [e for e in endings if e.key == problem.key])
        for problem in started(folder).problems
    )


def devices_of(folder: SuiteFolder) -> tuple[DeviceFacts, ...]:
    """The devices the verdicts were made on, in order; several if the suite was resumed on another one."""
    runs = [run_folder(folder.runs_of(problem.key)) for problem in started(folder).problems]
    reported = [contents_of(run.log).state.device for run in runs if run is not None]
    return tuple(dict.fromkeys(device for device in reported if device is not None))


def _result(
    folder: SuiteFolder, problem: SuiteProblem, endings: Sequence[ProblemEnded]
) -> ProblemResult:
    run = run_folder(folder.runs_of(problem.key))
    reported = contents_of(run.log) if run is not None else LogContents((), torn=False)
    events, state = reported.events, reported.state
    end = events[-1].event if events else None
    finished = end if isinstance(end, RunFinished) else None
    last_ending = endings[-1] if endings else None
    status: Status = "unfinished"
    if finished is not None and finished.outcome in {"better", "not_faster", "none"}:
        status = "ended"
    elif finished is not None or (last_ending is not None and not events):
        status = "failed"
    return ProblemResult(
        key=problem.key,
        label=problem.spec.label,
        split=problem.split,
        status=status,
        exit_status=finished.exit_status
        if finished
        else (last_ending.exit_status if last_ending else None),
        why=finished.why if finished else (last_ending.why if last_ending else "not run yet"),
        run=str(run.path.relative_to(folder.path)) if run is not None else None,
        degenerate=_degenerate(state),
        turns=len(state.history.finished),
        last=_last(state),
        best=_best(state),
        tokens=state.spent.tokens,
        dollars=state.spent.dollars,
        unpriced_tokens=state.spent.unpriced_tokens,
        wall_s=_worked_s(events),
        device_s=_device_s(events),
        by_turn=tuple(_of_turn(turn) for turn in state.history.finished),
        reproduce=reproduce_command(state),
    )


def _degenerate(state: RunState) -> bool:
    reported = [remark.code for remark in state.facts.disclosures] if state.facts else []
    evaluations = [turn.evaluation for turn in state.history.turns if turn.evaluation]
    reported += [disclosure.code for result in evaluations for disclosure in result.disclosures]
    return DEGENERATE in reported


def _last(state: RunState) -> Score:
    finished = state.history.finished
    return _of_turn(finished[-1]) if finished else Score(None, correct=False, code="no_turn")


def _best(state: RunState) -> Score:
    """Uses the second evaluation: the maximum of noisy first measurements is biased upwards."""
    if state.winner is not None:
        return _score(state.winner_turn, state.winner, certified=True)
    best = state.history.best
    return _of_turn(best) if best else Score(None, correct=False, code="none_accepted")


def _of_turn(turn: Turn) -> Score:
    if turn.evaluation is None:
        return Score(turn.index, correct=False, code="no_candidate")
    return _score(turn.index, turn.evaluation, certified=False)


def _score(turn: int | None, evaluation: Evaluation, *, certified: bool) -> Score:
    timing = evaluation.timing if evaluation.accepted else None
    return Score(
        turn=turn,
        correct=evaluation.accepted,
        eager=timing.speedup_eager.value if timing else None,
        compiled=_against_best_mode(evaluation) if evaluation.accepted else None,
        estimate=evaluation.estimate.ratio if evaluation.accepted and evaluation.estimate else None,
        certified=certified,
        code=evaluation.reason.code if evaluation.reason else None,
    )


def _against_best_mode(evaluation: Evaluation) -> float | None:
    timing = evaluation.timing
    if timing is None:
        return None
    if timing.compile:
        return min(timing.compile.values()) / timing.candidate_us
    return timing.speedup_compile.value if timing.speedup_compile else None


def _worked_s(events: Sequence[Logged]) -> float:
    """From the first event to the last, less the time between an end and going on after it."""
    if not events:
        return 0.0
    idle = sum(
        after.time_s - before.time_s
        for before, after in pairwise(events)
        if isinstance(before.event, RunFinished)
    )
    return events[-1].time_s - events[0].time_s - idle


def _device_s(events: Sequence[Logged]) -> float:
    """Each evaluation's stages, counted where it ended; a killed one's finished stages are lost."""
    spent = 0.0
    for logged in events:
        match logged.event:
            case Evaluated(evaluation=result) | WinnerMeasured(evaluation=result):
                spent += sum(stage.seconds for stage in result.stages)
            case _:
                continue
    return spent
