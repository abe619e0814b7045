"""Runs that are over or still going, as data: `kernelagent runs`, `show` and `diff`.

Everything is a fold over a log that another process may be writing; nothing here changes a log.
"""

from __future__ import annotations

import difflib
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import DeviceFacts, Estimate, Evaluation, Timing
from kernelagent.domain.events import Logged, ReplyReceived, RunFinished
from kernelagent.domain.history import Turn, TurnRequest
from kernelagent.prompts.beginning import problem_line
from kernelagent.prompts.wording import number, summary
from kernelagent.report.outcome import Outcome, outcome_of
from kernelagent.storage.git_history import hypothesis
from kernelagent.storage.inbox import is_going_on
from kernelagent.storage.run_log import RunFolder, events_in, whole_lines
from kernelagent.storage.run_state import RunState, fold

QUIET_S = 3600.0
"""A killed run is deleted only after this long: a lock of another machine may not be seen here."""


@dataclass(frozen=True)
class Best:
    """The number a run has to show: measured on `cuda`, an estimate on `virtual`, or neither."""

    turn: int
    text: str
    """The number as a person reads it, with its label."""
    certified: bool
    """True: judged again with fresh inputs, and written as a module."""
    timing: Timing | None = None
    estimate: Estimate | None = None


@dataclass(frozen=True)
class RunRow:
    """One run in the table of runs."""

    run: str
    folder: str
    problem: str
    strategy: str
    models: tuple[str, ...]
    turns: int
    accepted: int
    best: Best | None
    outcome: Outcome
    why: str
    size_bytes: int
    started_s: float
    last_s: float


@dataclass(frozen=True)
class RunsView:
    """`kernelagent runs`."""

    runs: tuple[RunRow, ...]
    """Oldest first; with --prune those that were deleted."""
    schema: str = "kernelagent.runs/1"


@dataclass(frozen=True)
class TurnRow:
    """One turn in the tree of turns."""

    turn: int
    parent: int | None
    kind: str
    model: str
    verdict: str
    """`accepted`, `rejected`, `error`, `void` or `pending`."""
    text: str
    best: bool
    emitted: bool


@dataclass(frozen=True)
class RunView:
    """`kernelagent show RUN`."""

    row: RunRow
    device: DeviceFacts | None
    sandbox: str
    turns: tuple[TurnRow, ...]
    spent: dict[str, float]
    """As the log has it, and `wall_s`."""
    module: str | None
    remarks: tuple[str, ...]
    torn: bool
    """The last line is not whole: it is being written, or its writer was killed."""
    schema: str = "kernelagent.show/1"


@dataclass(frozen=True)
class TurnView:
    """`kernelagent show RUN TURN`."""

    run: str
    row: TurnRow
    request: TurnRequest
    hypothesis: str
    evaluation: Evaluation | None
    """None: the turn is void or pending."""
    feedback: str
    reward: float
    tokens_in: int
    tokens_out: int
    dollars: float | None
    candidate: str | None
    code: str | None
    schema: str = "kernelagent.show_turn/1"


@dataclass(frozen=True)
class DiffView:
    """`kernelagent diff RUN A B`."""

    run: str
    before: TurnRow
    after: TurnRow
    diff: str
    """Unified; empty when both turns wrote the same text."""
    schema: str = "kernelagent.diff/1"


@dataclass(frozen=True)
class LogContents:
    """The events and state of a log at the time of reading, and whether its last line is incomplete."""

    events: tuple[Logged, ...]
    torn: bool
    state: RunState = field(default_factory=RunState)

    @property
    def finished(self) -> RunFinished | None:
        """The end, unless the run was resumed after it."""
        return self.state.finished


def contents_of(log: Path) -> LogContents:
    """Reads a log without touching it; a torn last line is left out. Raises `UsageError`."""
    data = log.read_bytes()
    events = tuple(events_in(data, log))
    try:
        return LogContents(events, bool(whole_lines(data)[1]), fold(events))
    except KeyError as error:
        raise UsageError(f"{log}: turn {error} goes on without having begun") from error


def all_runs(runs: Path) -> tuple[RunRow, ...]:
    """Every run below `runs`, oldest first; one that cannot be read has a row that says so."""
    rows = (row_of(RunFolder(log.parent)) for log in runs.glob("*/events.jsonl"))
    return tuple(sorted(rows, key=lambda row: (row.started_s, row.run)))


def row_of(folder: RunFolder) -> RunRow:
    """One run's row."""
    # Before the log is read: a run that ends in between has its end there.
    going_on = is_going_on(folder)
    try:
        return _row(folder, contents_of(folder.log), going_on=going_on)
    except UsageError as error:
        then = folder.log.stat().st_mtime
        why, size = str(error), _size_bytes(folder.path)
        return RunRow(
            folder.id, str(folder.path), "", "", (), 0, 0, None, "unreadable", why, size, then, then
        )


def _row(folder: RunFolder, contents: LogContents, *, going_on: bool) -> RunRow:
    state = contents.state
    outcome, why = outcome_of(folder.id, contents.events, state, going_on=going_on)
    return RunRow(
        run=state.run or folder.id,
        folder=str(folder.path),
        problem=_named(state),
        strategy=str(state.config.get("strategy") or "default"),
        models=_models(state.config),
        turns=len(state.history.turns),
        accepted=sum(turn.accepted for turn in state.history.turns),
        best=_best(state),
        outcome=outcome,
        why=why,
        size_bytes=_size_bytes(folder.path),
        started_s=state.started_s,
        last_s=state.last_s,
    )


def _named(state: RunState) -> str:
    """The problem, and the class that was asked for: one file may define several."""
    problem = state.problem
    if problem is None:
        return ""
    asked = problem.whole or problem
    line = problem_line(problem, None)
    return line if asked.path is None or asked.module is None else f"{line}: class {asked.module}"


def _models(config: dict[str, Any]) -> tuple[str, ...]:
    named = config.get("model") or ()
    return (named,) if isinstance(named, str) else tuple(map(str, named))


def _best_turn(state: RunState) -> Turn | None:
    """The turn whose candidate was confirmed and written; before that, or without one, the best so far."""
    if state.emitted is not None and state.winner_turn is not None:
        return state.history.turn(state.winner_turn)
    return state.history.best


def _best(state: RunState) -> Best | None:
    turn = _best_turn(state)
    if turn is None:
        return None
    certified = state.emitted is not None and state.winner is not None
    shown = state.winner if certified else turn.evaluation
    if shown is None:
        return None
    return Best(turn.index, number(shown), certified, shown.timing, shown.estimate)


def _size_bytes(folder: Path) -> int:
    # A run that is going on may take a file away between its listing and its size.
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def prunable(rows: Iterable[RunRow], *, now: float | None = None) -> tuple[RunRow, ...]:
    """Failed, interrupted and killed runs without an accepted candidate; never one still going."""
    then = (time.time() if now is None else now) - QUIET_S
    ended = {"failed", "interrupted"}
    return tuple(
        row
        for row in rows
        if row.accepted == 0
        and (row.outcome in ended or (row.outcome == "killed" and row.last_s < then))
    )


def prune(
    rows: Sequence[RunRow], confirm: Callable[[Sequence[RunRow]], bool], *, yes: bool = False
) -> tuple[RunRow, ...]:
    """Deletes the folders of `rows` once `confirm` has shown them and agreed; returns the deleted.

    `yes`: without asking. A row whose run went on since it was read is left alone.
    """
    if not rows or not (yes or confirm(rows)):
        return ()
    return tuple(row for row in rows if _delete(row))


def _delete(row: RunRow) -> bool:
    folder = RunFolder(Path(row.folder))
    if folder.path.is_symlink() or row_of(folder).last_s != row.last_s:
        return False
    shutil.rmtree(folder.path)
    return True


def run_view(folder: RunFolder) -> RunView:
    """A run: facts, turns, best, spend; raises `UsageError`."""
    going_on = is_going_on(folder)
    reported = contents_of(folder.log)
    state = reported.state
    wall = {"wall_s": state.elapsed_s}
    return RunView(
        row=_row(folder, reported, going_on=going_on),
        device=state.device,
        sandbox=state.sandbox,
        turns=_turn_rows(state),
        spent=asdict(state.spent) | wall,
        module=state.emitted,
        remarks=state.remarks,
        torn=reported.torn,
    )


def turn_view(folder: RunFolder, turn: int) -> TurnView:
    """One turn with all that is known of it; raises `UsageError`."""
    reported = contents_of(folder.log)
    item = _turn(reported.state, turn)
    replies = [e.event for e in reported.events if isinstance(e.event, ReplyReceived)]
    reply = next((r for r in reversed(replies) if r.turn == turn), None)
    return TurnView(
        run=reported.state.run or folder.id,
        row=_turn_row(reported.state, item, _best_turn(reported.state)),
        request=item.request,
        hypothesis=hypothesis(item.reply or ""),
        evaluation=item.evaluation,
        feedback=item.feedback,
        reward=item.reward,
        tokens_in=reply.tokens_in if reply else 0,
        tokens_out=reply.tokens_out if reply else 0,
        dollars=reply.dollars if reply else None,
        candidate=item.candidate.id if item.candidate else None,
        code=item.candidate.source if item.candidate else None,
    )


def diff_view(folder: RunFolder, before: int, after: int) -> DiffView:
    """What changed between the candidates of two turns; raises `UsageError`."""
    state = contents_of(folder.log).state
    item, other = _turn(state, before), _turn(state, after)
    lines = difflib.unified_diff(
        _source(item).splitlines(),
        _source(other).splitlines(),
        f"turn {before}",
        f"turn {after}",
        lineterm="",
    )
    text = "".join(f"{line}\n" for line in lines)
    best = _best_turn(state)
    rows = (_turn_row(state, item, best), _turn_row(state, other, best))
    return DiffView(state.run or folder.id, *rows, text)


def _turn(state: RunState, index: int) -> Turn:
    try:
        return state.history.turn(index)
    except KeyError:
        known = ", ".join(str(turn.index) for turn in state.history.turns[-10:]) or "none"
        raise UsageError(
            f"run {state.run} has no turn {index}; its latest turns: {known}"
        ) from None


def _source(turn: Turn) -> str:
    if turn.candidate is None:
        raise UsageError(f"turn {turn.index} has no candidate: {turn.void or 'it is pending'}")
    return turn.candidate.source


def _turn_rows(state: RunState) -> tuple[TurnRow, ...]:
    best = _best_turn(state)
    return tuple(_turn_row(state, turn, best) for turn in state.history.turns)


def _turn_row(state: RunState, turn: Turn, best: Turn | None) -> TurnRow:
    result = turn.evaluation
    waiting = "its candidate is being judged" if turn.reply else "the model is being asked"
    return TurnRow(
        turn=turn.index,
        parent=turn.request.parent,
        kind=turn.request.kind,
        model=turn.request.model,
        verdict=result.verdict if result else ("void" if turn.void else "pending"),
        text=summary(result) if result else turn.void or waiting,
        best=best is not None and best.index == turn.index,
        emitted=state.emitted is not None and state.winner_turn == turn.index,
    )
