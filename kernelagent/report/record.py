"""The run as one JSON object: `report.json`, and what `optimize --json` prints."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import DeviceFacts, Estimate, Evaluation, Reason, Timing
from kernelagent.domain.events import RunFinished
from kernelagent.domain.history import Turn
from kernelagent.domain.problem import ProblemFacts
from kernelagent.domain.serialization import from_data, to_data
from kernelagent.report.reproduce import recheck_command, timing_command
from kernelagent.storage.run_state import RunState


@dataclass(frozen=True)
class TurnRow:
    """One turn: what was asked, and the judge's answer in short."""

    turn: int
    parent: int | None
    kind: str
    model: str
    candidate: str | None
    """The candidate's id; None where the reply held none."""
    verdict: Literal["accepted", "rejected", "error", "void", "pending"]
    reason: Reason | None
    timing: Timing | None
    estimate: Estimate | None
    reward: float
    seconds: float
    """Spent judging."""


@dataclass(frozen=True)
class Report:
    """A run's outcome; `winner` is the second evaluation, whose number is the one reported."""

    schema: Literal["kernelagent.report/1"]
    run: str
    folder: str
    outcome: str
    exit_status: int
    why: str
    problem: ProblemFacts | None
    device: DeviceFacts | None
    module: str | None
    """The emitted file; None where nothing better was found."""
    best_turn: int | None
    winner: Evaluation | None
    turns: tuple[TurnRow, ...]
    spent: dict[str, float]
    config: dict[str, Any]
    versions: dict[str, str]
    reproduce: str | None
    """The one command that gives the verdict and the number again."""


def result_record(state: RunState, run: Path) -> dict[str, Any]:
    """The run as plain data of the schema `report.json`; `run` is its folder."""
    finished = state.finished or RunFinished("interrupted", 130, "the run did not end in order")
    report = Report(
        schema="kernelagent.report/1",
        run=state.run,
        folder=str(run),
        outcome=finished.outcome,
        exit_status=finished.exit_status,
        why=finished.why,
        problem=state.facts,
        device=state.device,
        module=state.emitted,
        best_turn=state.winner_turn if state.emitted else None,
        winner=state.winner,
        turns=tuple(_turn_row(turn) for turn in state.history.turns),
        spent=asdict(state.spent) | {"wall_s": state.elapsed_s},
        config=state.config,
        versions=state.versions,
        reproduce=reproduce_command(state),
    )
    data: dict[str, Any] = to_data(report)
    return data


def _turn_row(turn: Turn) -> TurnRow:
    evaluation = turn.evaluation
    return TurnRow(
        turn=turn.index,
        parent=turn.request.parent,
        kind=turn.request.kind,
        model=turn.request.model,
        candidate=turn.candidate.id if turn.candidate else None,
        verdict=evaluation.verdict if evaluation else ("void" if turn.void else "pending"),
        reason=evaluation.reason if evaluation else None,
        timing=evaluation.timing if evaluation else None,
        estimate=evaluation.estimate if evaluation else None,
        reward=turn.reward,
        seconds=sum(stage.seconds for stage in evaluation.stages) if evaluation else 0.0,
    )


def timing_command_of(state: RunState) -> str:
    """The command that times what a run wrote, on the device that it is typed on; raises `ValueError` if nothing was."""
    if state.problem is None or state.emitted is None:
        raise ValueError("a run that wrote no module has nothing to time")
    return timing_command(state.problem, from_data(state.config, RunConfig), Path(state.emitted))


def reproduce_command(state: RunState) -> str | None:
    """The one command that gives the verdict and the number again; None where nothing was written."""
    if state.problem is None or state.emitted is None:
        return None
    return recheck_command(state.problem, from_data(state.config, RunConfig), Path(state.emitted))
